"""Values of a machine's rows: read from what a user wrote, every mistake one line."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from emu.errors import ConfigError
from emu.model import checks
from emu.units import format_duration_ps, parse_duration_ps

LEAST_CYCLES = Decimal("0.001")
MOST_CYCLES = 10**9
MOST_LINES = 64
MOST_LATENCY_PS = 10**15  # 1000 s
KHZ = (1000, 100_000_000)
MOST_FACTOR = 1000
MOST_VALUES = {  # of what factors make
    "costs": MOST_CYCLES * MOST_FACTOR,
    "transfer": MOST_CYCLES * MOST_FACTOR,
    "stream": MOST_CYCLES * MOST_FACTOR,
    "lines": MOST_LINES * MOST_FACTOR,
    "latencies": 10 * MOST_LATENCY_PS,
}


def decimal_of(value: object) -> Decimal | None:
    """The number as it was written; None for what is none, or is not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        number = Decimal(str(value))
    except (InvalidOperation, ValueError):  # or a number of thousands of digits
        return None
    return number if number.is_finite() else None


def _read_number(value: object, where: str, allowed: str, low: Decimal, high: int) -> Decimal:
    number = decimal_of(value)
    if number is None or not low <= number <= high:
        raise ConfigError(where, checks.shown(value), allowed)
    return number


def check_range(value: Decimal | int | tuple[int, int], kind: str, where: str) -> None:
    """Refuse what a factor, or several, made of a value that was in range.

    Args:
        value: of a row.
        kind: its table.
        where: for the error.

    Raises:
        ConfigError: out of range.
    """
    largest = max(value) if isinstance(value, tuple) else value
    most = MOST_VALUES.get(kind)
    if most is not None and largest > most:
        given = f"{largest} after a factor"
        raise ConfigError(where, given, f"at most {most}", "a smaller factor")


def read_cycles(value: object, where: str) -> Decimal:
    """Cycles of one operation, line or byte.

    Raises:
        ConfigError: no number, out of range, or with more than three decimals.
    """
    allowed = f"cycles from {LEAST_CYCLES} to {MOST_CYCLES}, at most three decimals"
    number = _read_number(value, where, allowed, LEAST_CYCLES, MOST_CYCLES)
    rounded = round(number, 3)
    if rounded != number:
        raise ConfigError(where, checks.shown(value), allowed, str(rounded))
    return number


def read_overlap(value: object, where: str) -> Decimal:
    """The share of a line's latency that is left when several are touched together.

    Raises:
        ConfigError: no number from 0.001 to 1.
    """
    allowed = f"a share from {LEAST_CYCLES} to 1"
    return _read_number(value, where, allowed, LEAST_CYCLES, 1)


def read_factor(value: object, where: str) -> Decimal:
    """What a row is multiplied by.

    Raises:
        ConfigError: no number from 0.001 to 1000.
    """
    allowed = f"a number from {LEAST_CYCLES} to {MOST_FACTOR}"
    return _read_number(value, where, allowed, LEAST_CYCLES, MOST_FACTOR)


def read_khz(value: object, where: str) -> int:
    """A clock in kHz.

    Raises:
        ConfigError: no whole number, or out of range.
    """
    low, high = KHZ
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        allowed = f"a whole number of kHz from {low} to {high}"
        raise ConfigError(where, checks.shown(value), allowed, "2600000 for 2.6 GHz")
    return value


def read_line_counts(value: object, where: str) -> tuple[int, int]:
    """Lines of TCP and of UDP.

    Raises:
        ConfigError: not two whole numbers in range.
    """
    counts = tuple(value) if isinstance(value, (list, tuple)) else ()
    if len(counts) != 2 or not all(checks.is_int(n) and 0 <= n <= MOST_LINES for n in counts):
        allowed = f"two whole numbers from 0 to {MOST_LINES}, of TCP and of UDP"
        raise ConfigError(where, checks.shown(value), allowed)
    return counts[0], counts[1]


def read_latency_ps(value: object, where: str, low: int = 0) -> int:
    """A duration such as "1.5us", or picoseconds; *low* is the shortest allowed.

    Raises:
        ConfigError: neither, too short, or longer than 1000 s.
    """
    allowed = f'a duration such as "1.5us", {format_duration_ps(low)} to 1000s'
    if isinstance(value, str):
        picoseconds = parse_duration_ps(value, where)
    elif isinstance(value, int) and not isinstance(value, bool):
        picoseconds = value
    else:
        raise ConfigError(where, checks.shown(value), allowed)
    if not low <= picoseconds <= MOST_LATENCY_PS:
        raise ConfigError(where, checks.shown(value), allowed)
    return picoseconds
