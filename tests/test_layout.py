"""emu/dtypes.py and run_dtypes.py are the law: the core says the same, field by field."""

from __future__ import annotations

import re
from enum import IntEnum

import numpy as np
import pytest

from emu import dtypes, run_dtypes
from emu.model.capture import CaptureFault
from emu.model.ops import OpKind
from tests.source_tree import CORE, Block, cython_blocks, name_of

SOURCES = sorted([*CORE.glob("*.pxd"), *CORE.glob("*.pyx")])
WIDTHS = {
    **{f"i{8 * size}": f"i{size}" for size in (1, 2, 4, 8)},
    **{f"u{8 * size}": f"u{size}" for size in (1, 2, 4, 8)},
}

# By prefix: the constants that the core spells again, in whichever file.
STEER_COUNTS = IntEnum(  # type: ignore[misc]
    "STEER_COUNTS", {name.upper(): index for index, name in enumerate(dtypes.STEER_STAGES)}
)
ENUMS: dict[str, type[IntEnum]] = {
    "COUNT_": STEER_COUNTS,
    "DESIGN_": dtypes.CpumapDesign,
    "DIR_": dtypes.Direction,
    "DROP_": dtypes.Drop,
    "FAULT_": CaptureFault,
    "FIELD_": dtypes.RssField,
    "GRO_": dtypes.GroResult,
    "HASH_": dtypes.HashType,
    "OP_": OpKind,
    "PF_": dtypes.PacketFlag,
    "PROG_": dtypes.Prog,
    "R_": dtypes.Reason,
    "REASON_": dtypes.Reason,
    "RULE_": dtypes.CpumapRule,
    "SECRET_": dtypes.Secret,
    "SOCK_": dtypes.SockState,
    "TX_": dtypes.TxOf,
    "TYPE_": dtypes.HashType,
}
# Not members, but made of them.
MADE = {
    "COUNT_STAGES": len(dtypes.STEER_STAGES),
    "FAULT_NONE": 0,
    "FIELD_ALL": sum(dtypes.RssField),
    "FIELD_PORTS": dtypes.RssField.L4_B_0_1 | dtypes.RssField.L4_B_2_3,
}
WHOLE = {"PF_": dtypes.PacketFlag, "COUNT_": STEER_COUNTS}

RECORDS = {
    name: value
    for law in (dtypes, run_dtypes)
    for name, value in sorted(vars(law).items())
    if isinstance(value, np.dtype)
}


def structs() -> dict[str, list[Block]]:
    """Every struct of the core, by name."""
    found: dict[str, list[Block]] = {}
    for path in SOURCES:
        for block in cython_blocks(path):
            if block.kind == "struct":
                found.setdefault(block.name, []).append(block)
    return found


def constants() -> list[tuple[str, str, int]]:
    """(file, name, value) of every enum constant of the core."""
    found = []
    for path in SOURCES:
        values: dict[str, int] = {}
        for block in cython_blocks(path):
            for line in block.body if block.kind == "enum" else ():
                name, _, text = line.rstrip(",").partition("=")
                values[name.strip()] = int(eval(text, {"__builtins__": {}}, values))
        found += [(name_of(path), name, value) for name, value in values.items()]
    return found


def fields_of(block: Block) -> list[tuple[str, str, tuple[int, ...]]]:
    """(name, numpy type, shape) per field, in order."""
    fields = []
    for line in block.body:
        kind, declared = line.split(maxsplit=1)
        for one in declared.split(","):
            name, *sizes = re.findall(r"\w+", one)
            fields.append((name, WIDTHS[kind], tuple(int(size) for size in sizes)))
    return fields


def fields_of_dtype(record: np.dtype) -> list[tuple[str, str, tuple[int, ...]]]:
    """The same of a dtype."""
    fields = []
    for name in record.names or ():
        base, shape = record[name].base, record[name].shape
        fields.append((name, base.str[1:], shape))
    return fields


def test_packets_t_has_one_pointer_a_column_in_order() -> None:
    """The struct is laid over a table of addresses: its order is all that names a column."""
    (block,) = structs()["packets_t"]
    columns = [f"const {kind} *{name}" for name, kind, _ in dtypes.PACKET_COLUMNS]
    spelled = [
        line.replace(kind, code, 1) for line in block.body for kind, code in [width_of(line)]
    ]

    assert spelled == columns


def width_of(line: str) -> tuple[str, str]:
    kind = line.split()[1]
    return kind, WIDTHS[kind]


@pytest.mark.parametrize("record", RECORDS)
def test_each_record_has_its_struct_once(record: str) -> None:
    blocks = structs().get(f"{record.lower()}_t", [])

    assert len(blocks) == 1
    assert fields_of(blocks[0]) == fields_of_dtype(RECORDS[record])


@pytest.mark.parametrize("record", RECORDS)
def test_the_compiled_struct_has_the_dtype(record: str) -> None:
    """Offsets and size as the C compiler sees them, names too (a memoryview compares no names)."""
    from emu._core import layout

    assert layout.struct_dtypes()[record] == RECORDS[record]


def test_the_compiled_packets_t_is_as_long_as_the_table_of_addresses() -> None:
    from emu._core import layout

    assert layout.packets_bytes() == (8 * len(dtypes.PACKET_COLUMNS), 8)


def test_constants_are_those_of_the_enums() -> None:
    wrong = []
    for where, name, value in constants():
        for prefix, members in ENUMS.items():
            if not name.startswith(prefix):
                continue
            expected = MADE.get(name, members.__members__.get(name.removeprefix(prefix)))
            if expected is None or int(expected) != value:
                wrong.append(f"{where}: {name} = {value}, {members.__name__} has {expected!r}")

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("prefix", WHOLE)
def test_no_member_is_missing(prefix: str) -> None:
    names = {name for _, name, _ in constants()}

    assert {prefix + name for name in WHOLE[prefix].__members__} - names == set()


def test_a_record_needs_no_hidden_padding() -> None:
    """Padding that has no name has no value either: rows would not compare equal."""
    for name, record in RECORDS.items():
        named = sum(record[field].itemsize for field in record.names)

        assert named == record.itemsize, f"{name} has {record.itemsize - named} nameless bytes"
