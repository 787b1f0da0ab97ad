"""Ask the running kernel in a child process, and hold both engines against what it answers."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from emu.errors import ConfigError
from emu.replay.run import ENGINES, Report, replay_records
from emu.verify.guard import borrowed
from emu.verify.needs import lacking

# Parts, with their share of the cases.
SHARES = {"gro": 8, "rps": 4, "rfs": 1, "xps": 4, "reuseport": 3, "cpumap": 2}
SILENT_SECONDS = 60
SOCK_FLOW_ENTRIES = Path("/proc/sys/net/core/rps_sock_flow_entries")
TABLE_ENTRIES, TABLE_VARIABLE = 64, "EMU_VERIFY_SOCK_FLOW_ENTRIES"


@attrs.define
class Verified:
    """What a live comparison found.

    Attributes:
        report: as of a replay.
        lacking: parts that could not run, with the reason.
        records: everything recorded, in the replay's formats.
    """

    report: Report
    lacking: dict[str, str] = attrs.field(factory=dict)
    records: list[dict[str, Any]] = attrs.field(factory=list)

    @property
    def ran(self) -> bool:
        """Whether any part could run."""
        return bool(self.records)


class CannotVerify(Exception):
    """Nothing can be asked of this machine; the message says what it lacks."""


def verify(
    *,
    cases: int = 2000,
    seed: int = 1,
    only: Sequence[str] = (),
    engines: Sequence[str] = ENGINES,
    kernel: str = "6.18",
    assumed: dict[str, bool] | None = None,
    machine_wide: bool = False,
    begin: Callable[[str], None] = lambda name: None,
    share: Callable[[float], None] = lambda done: None,
) -> Verified:
    """Take random decisions of the running kernel and compare.

    Args:
        cases: records in all.
        seed: of the cases; the kernel's own secrets are its own.
        only: parts of SHARES; all if none is given.
        engines: ``"core"``, ``"ref"``.
        kernel: whose rules hold.
        assumed: rules that the reference shall answer so (docs/replay.md).
        machine_wide: also what only the whole machine has: the global table of RFS is made for as
            long as it takes, and its old size given back.
        begin: told of each part.
        share: told how much of a part is done.

    Raises:
        CannotVerify: the machine lacks what every part needs.
        ConfigError: an unknown part, or the child fell silent.
    """
    counts = counts_of(cases, only)
    reason = lacking()
    if reason:
        raise CannotVerify(reason)
    out = Verified(Report(tuple(engines)))
    with machine_settings(machine_wide and "rfs" in counts):
        collect(out, ask(counts, seed), counts, begin, share)
    out.report.tallies = replay_records(
        enumerate(out.records, 1), "live", engines=engines, kernel=kernel, assumed=assumed
    )
    return out


@contextlib.contextmanager
def machine_settings(wanted: bool) -> Iterator[None]:
    """The global table of RFS, if it is wanted and there is none yet."""
    if not wanted:
        yield
        return
    try:
        with borrowed(SOCK_FLOW_ENTRIES, str(TABLE_ENTRIES)):
            os.environ[TABLE_VARIABLE] = str(TABLE_ENTRIES)
            yield
    except OSError as error:
        raise CannotVerify(f"net.core.rps_sock_flow_entries: {error.strerror}") from None
    finally:
        os.environ.pop(TABLE_VARIABLE, None)


def collect(
    out: Verified,
    answers: Iterator[dict[str, Any]],
    counts: dict[str, int],
    begin: Callable[[str], None],
    share: Callable[[float], None],
) -> None:
    """Keep what the child says."""
    done = dict.fromkeys(counts, 0)
    for told in answers:
        if "begin" in told:
            begin(told["begin"])
        elif "lacking" in told and "part" not in told:
            raise CannotVerify(told["lacking"])
        elif "lacking" in told:
            out.lacking[told["part"]] = told["lacking"]
        elif "record" in told:
            name = told["part"]
            done[name] += 1
            share(done[name] / counts[name])
            out.records.append(told["record"])


def counts_of(cases: int, only: Sequence[str]) -> dict[str, int]:
    """How many cases each part gets."""
    for name in only:
        if name not in SHARES:
            raise ConfigError("--only", repr(name), ", ".join(SHARES))
    shares = {name: share for name, share in SHARES.items() if not only or name in only}
    whole = sum(shares.values())
    return {name: max(cases * share // whole, 1) for name, share in shares.items()}


def ask(counts: dict[str, int], seed: int) -> Iterator[dict[str, Any]]:
    """What the child says, line by line; it is ended whatever happens here."""
    words = [word for name, count in counts.items() for word in (name, str(count))]
    command = [sys.executable, "-m", "emu.verify.child", str(os.getpid()), str(seed), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            yield from lines_of(child)
        finally:
            child.kill()


def lines_of(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Lines until the child is done; silence and death are one line each."""
    assert child.stdout is not None
    assert child.stderr is not None
    rest = b""
    while True:
        if not select.select([child.stdout], [], [], SILENT_SECONDS)[0]:
            raise ConfigError("verify", f"{SILENT_SECONDS} s without a word", "an answer")
        octets = os.read(child.stdout.fileno(), 1 << 20)
        if not octets:
            said = child.stderr.read().decode(errors="replace").strip().splitlines()
            reason = said[-1][:200] if said else f"status {child.wait()}"
            raise ConfigError("verify", f"the asking process ended ({reason})", "all cases")
        *lines, rest = (rest + octets).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if told.get("done"):
                return
            yield told


def write_recording(target: str | Path, records: Sequence[dict[str, Any]]) -> None:
    """Write records for `emu replay`: the file appears whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    path = Path(target)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    octets = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records).encode()
    if path.suffix == ".gz":
        octets = gzip.compress(octets, mtime=0)
    try:
        part.write_bytes(octets)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        allowed = f"a file that can be written ({error.strerror})"
        raise ConfigError("--record", repr(str(target)), allowed) from None
