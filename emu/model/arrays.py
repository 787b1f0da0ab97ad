"""Array arguments of the stages' doors: one exact dtype and shape, or one line of error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.errors import ConfigError
from emu.model.checks import shown


def column(
    where: str,
    values: ArrayLike,
    dtype: str,
    *,
    rows: int | None = None,
    width: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> NDArray[Any]:
    """Give whole numbers as a C-contiguous array; an array that fits already is not copied.

    Args:
        where: what an error calls it, ``"toeplitz_v4: sport"``.
        values: one number per row, or *width* numbers per row.
        dtype: an integer dtype, ``"u4"``; no value may lie outside its range.
        rows: how many there must be; None for any.
        width: numbers per row (-1: any) of a two-dimensional array; None for one dimension.
        low: smallest value allowed, when tighter than the dtype's.
        high: largest value allowed, likewise.

    Raises:
        ConfigError: no whole numbers, another shape, or a value out of range.
    """
    kind = np.dtype(dtype)
    array = _whole_numbers(where, values, kind)
    _check_shape(where, array, rows, width)
    if array.size:
        limits = np.iinfo(kind)
        bottom = limits.min if low is None else low
        top = limits.max if high is None else high
        if array.dtype != kind or low is not None or high is not None:
            _check_range(where, array, bottom, top)
    return np.ascontiguousarray(array, dtype=kind)


def spread(
    where: str,
    value: ArrayLike,
    dtype: str,
    rows: int,
    *,
    low: int | None = None,
    high: int | None = None,
) -> NDArray[Any]:
    """Give one number for all rows, or one for each, as an array of *rows* entries.

    The arguments and errors are those of `column`.
    """
    if np.ndim(value) == 0:
        one = column(where, np.atleast_1d(value), dtype, low=low, high=high)
        return np.repeat(one, rows)
    return column(where, value, dtype, rows=rows, low=low, high=high)


def _whole_numbers(where: str, values: ArrayLike, kind: np.dtype[Any]) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):  # ragged, or no numbers at all
        raise ConfigError(where, shown(values), f"an array of {kind.name}") from None
    if array.size == 0 and array.dtype.kind == "f":
        return array.astype(kind)  # what numpy makes of []
    if array.dtype.kind == "O" and all(type(value) is int for value in array.flat):
        return array  # whole numbers too large for one dtype: the range check names the culprit
    if array.dtype.kind not in "iu":
        given = f"an array of {array.dtype.name}"
        fix = f".astype('{kind.name}')" if array.dtype.kind in "fb" else ""
        raise ConfigError(where, given, f"whole numbers ({kind.name})", fix)
    return array


def _check_shape(where: str, array: NDArray[Any], rows: int | None, width: int | None) -> None:
    fits = array.ndim == (1 if width is None else 2)
    fits = fits and (rows is None or len(array) == rows)
    fits = fits and (width is None or width < 0 or array.shape[1] == width)
    if not fits:
        length = "n" if rows is None else str(rows)
        inner = "" if width is None else f", {'w' if width < 0 else width}"
        raise ConfigError(where, f"shape {array.shape}", f"shape ({length}{inner or ','})")


def _check_range(where: str, array: NDArray[Any], low: int, high: int) -> None:
    least, most = int(array.min()), int(array.max())
    for bad, value in ((least < low, least), (most > high, most)):
        if bad:
            row = int(np.argmax((array == value).reshape(len(array), -1).any(axis=1)))
            raise ConfigError(f"{where}[{row}]", value, f"{low}..{high}")


def octets(where: str, value: object, least: int, most: int | None = None) -> bytes:
    """Give a key as bytes.

    Args:
        where: what an error calls it.
        value: bytes, bytearray, memoryview, or uint8[n].
        least: smallest length in bytes.
        most: largest length; None for any.

    Raises:
        ConfigError: no bytes, or too few or too many.
    """
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1:
        value = value.tobytes()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        fix = "bytes.fromhex(...)" if isinstance(value, str) else ""
        raise ConfigError(where, f"a {type(value).__name__}", "bytes", fix)
    out = bytes(value)
    if len(out) < least or (most is not None and len(out) > most):
        allowed = f"{least} bytes" if most == least else f"{least} bytes or more"
        raise ConfigError(where, f"{len(out)} bytes", allowed)
    return out
