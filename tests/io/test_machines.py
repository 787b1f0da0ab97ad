"""Machines from a user's files: bases, sources, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.errors import ConfigError
from emu.io.machines import load_machine
from emu.model.costs import NO_SOURCE, Machine
from emu.model.machines_toml import PRESETS, get_machine
from emu.run_dtypes import COST_ONE, Cost, Touch

HEAD = '[machine]\nname = "mine"\nbase = "xeon-2015"\n'
CYCLES = "cycles from 0.001 to 1000000000, at most three decimals"
SHIPPED = '"opteron-2010", "xeon-2015", "xeon-2024" or a TOML file'


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def row(machine: Machine, place: str):
    return next(row for row in machine.rows if row.place == place)


def test_a_name_is_a_preset_and_a_machine_stays_one() -> None:
    for name in PRESETS:
        assert load_machine(name) is get_machine(name)
        assert load_machine(get_machine(name)) is get_machine(name)


def test_a_copy_of_a_preset_is_the_preset(tmp_path: Path) -> None:
    source = Path(__file__).parent.parent.parent / "emu/model/machines/xeon-2015.toml"
    copy = load_machine(write(tmp_path, source.read_text(encoding="utf-8")))

    assert copy.rows == get_machine("xeon-2015").rows


def test_what_a_file_says_lies_over_its_base(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "[costs]\nlock = 40\nwake = 10\n", "base.toml")
    text = '[machine]\nname = "top"\nbase = "base.toml"\nkhz = 3000000\noverlap = 0.5\n'
    text += '[costs]\nlock = 41.125\nhardirq = { cycles = 900, source = "mine", solid = "B" }\n'
    text += "[lines]\ntxq = { tcp = 2, udp = 1 }\nqdisc = [4, 5]\n"
    text += '[latencies]\nipi = { time = "2us" }\nslice = 5000000\n'
    machine = load_machine(write(tmp_path, text, "top.toml"))
    preset = get_machine("xeon-2015")

    assert (machine.name, machine.title) == ("top", "based on mine")
    assert machine.costs[Cost.LOCK] == 41.125 * COST_ONE
    assert machine.costs[Cost.WAKE] == 10 * COST_ONE
    assert machine.costs[Cost.TCP_RX] == preset.costs[Cost.TCP_RX]
    assert machine.lines[Touch.TXQ].tolist() == [2, 1]
    assert machine.lines[Touch.QDISC].tolist() == [4, 5]
    assert (machine.ipi_ps, machine.slice_ps, machine.khz) == (2 * 10**6, 5 * 10**6, 3_000_000)
    assert machine.transfer[1] == round(107 * 0.5 * COST_ONE)
    assert (row(machine, "costs.hardirq").source, row(machine, "costs.hardirq").solid) == (
        "mine",
        "B",
    )
    assert (row(machine, "costs.lock").source, row(machine, "costs.lock").solid) == (NO_SOURCE, "D")
    assert row(machine, "lines.txq").why == row(preset, "lines.txq").why


FILES = [
    ("", 'machine: got nothing; allowed: a table; try [machine] name = "mine"'),
    ("machine = 3", "machine: got 3; allowed: a table; try [machine]"),
    ("[machine]\nkhz = 1000\n", "machine.name: got nothing; allowed: text that is not empty"),
    (
        '[machine]\nname = "mine"\n',
        "machine.khz: got nothing; allowed: a clock in kHz; try khz = 2600000 for 2.6 GHz",
    ),
    (
        '[machine]\nname = "mine"\nkhz = 1000\noverlap = 1\n',
        'costs.hardirq: got nothing; allowed: a value; try base = "xeon-2015", which has one',
    ),
    (
        HEAD.replace("2015", "2051"),
        f"machine.base: got 'xeon-2051'; allowed: {SHIPPED}; try \"xeon-2015\"",
    ),
    (HEAD.replace('"xeon-2015"', "3"), "machine.base: got 3; allowed: text that is not empty"),
    (
        HEAD + "mhz = 3000\n",
        'machine: got key \'mhz\'; allowed: "name", "title", "base", "khz", "overlap"; try "khz"',
    ),
    (
        HEAD + "khz = 2.6\n",
        "machine.khz: got 2.6; allowed: a whole number of kHz from 1000 to 100000000; "
        "try 2600000 for 2.6 GHz",
    ),
    (HEAD + "overlap = 0\n", "machine.overlap: got 0; allowed: a share from 0.001 to 1"),
    (
        HEAD + "[cost]\nlock = 3\n",
        'top level: got key \'cost\'; allowed: "machine", "costs", "transfer", "stream", '
        '"lines", "latencies"; try "costs"',
    ),
    (HEAD + "costs = 3\n", "machine: got key 'costs'; allowed: \"name\""),
    (HEAD + "[costs]\nhardirk = 3\n", "costs: got key 'hardirk'; allowed: \"hardirq\", "),
    (HEAD + "[costs]\nlock = 0\n", f"costs.lock: got 0; allowed: {CYCLES}"),
    (HEAD + "[costs]\nlock = -2\n", f"costs.lock: got -2; allowed: {CYCLES}"),
    (HEAD + "[costs]\nlock = 0.0009\n", f"costs.lock: got 0.0009; allowed: {CYCLES}"),
    (HEAD + "[costs]\nlock = 1.0004\n", f"costs.lock: got 1.0004; allowed: {CYCLES}; try 1.000"),
    (HEAD + "[costs]\nlock = nan\n", f"costs.lock: got nan; allowed: {CYCLES}"),
    (HEAD + "[costs]\nlock = -inf\n", f"costs.lock: got -inf; allowed: {CYCLES}"),
    (HEAD + "[costs]\nlock = true\n", f"costs.lock: got True; allowed: {CYCLES}"),
    (HEAD + '[costs]\nlock = "3"\n', f"costs.lock: got '3'; allowed: {CYCLES}"),
    (HEAD + "[costs.lock]\ncycles = 0\n", f"costs.lock.cycles: got 0; allowed: {CYCLES}"),
    (HEAD + "[costs.lock]\n", "costs.lock.cycles: got nothing; allowed: a value"),
    (
        HEAD + "[costs.lock]\ncycle = 1\n",
        'costs.lock: got key \'cycle\'; allowed: "cycles", "source", "solid", "why"; try "cycles"',
    ),
    (
        HEAD + '[costs.lock]\ncycles = 1\nsolid = "E"\n',
        'costs.lock.solid: got \'E\'; allowed: "A", "B", "C", "D"',
    ),
    (
        HEAD + '[costs.lock]\ncycles = 1\nsource = " "\n',
        "costs.lock.source: got ' '; allowed: text that is not empty",
    ),
    (
        HEAD + "[transfer]\nsame_cpu = 1\n",
        'transfer: got key \'same_cpu\'; allowed: "same_llc", "same_node", "other_node"; try ',
    ),
    (
        HEAD + "[lines]\ntxq = 2\n",
        "lines.txq: got 2; allowed: two whole numbers from 0 to 64, of TCP and of UDP",
    ),
    (HEAD + "[lines.txq]\ntcp = 2\n", "lines.txq.udp: got nothing; allowed: a value"),
    (
        HEAD + '[latencies]\nslice = "10ns"\n',
        "latencies.slice: got '10ns'; allowed: a duration such as \"1.5us\", 1us to 1000s",
    ),
    (HEAD + '[latencies]\nipi = "soon"\n', "latencies.ipi: got 'soon'; allowed: a number and a"),
]


@pytest.mark.parametrize(("text", "line"), FILES, ids=[line[:50] for _, line in FILES])
def test_mistakes(tmp_path: Path, text: str, line: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_machine(path)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)


def test_a_base_that_comes_back_is_told(tmp_path: Path) -> None:
    mine = write(tmp_path, HEAD.replace("xeon-2015", "./mine.toml"))
    with pytest.raises(ConfigError, match=r"mine.toml: machine.base: got a circle, .*2015"):
        load_machine(mine)
    write(tmp_path, HEAD.replace("xeon-2015", "b.toml"), "a.toml")
    b = write(tmp_path, HEAD.replace("xeon-2015", "a.toml"), "b.toml")
    with pytest.raises(ConfigError, match=r"a.toml: machine.base: got a circle, .*b.toml -> "):
        load_machine(str(b))


def test_a_mistake_in_the_base_names_the_base(tmp_path: Path) -> None:
    base = write(tmp_path, HEAD + "[costs]\nlock = 0\n", "base.toml")
    mine = write(tmp_path, HEAD.replace("xeon-2015", "base.toml"))
    with pytest.raises(ConfigError) as caught:
        load_machine(mine)
    assert str(caught.value) == f"{base}: costs.lock: got 0; allowed: {CYCLES}"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    mine = write(tmp_path, HEAD.replace("xeon-2015", "nowhere.toml"))
    with pytest.raises(ConfigError, match=r"nowhere.toml: got No such file or directory"):
        load_machine(mine)
    with pytest.raises(ConfigError, match=r"^machine: got 'xeon'; allowed: .*; try \"xeon-20"):
        load_machine("xeon")
