"""What steps cost: base, bytes and cache lines, booked by context, stage and kind (docs/run.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.model.run_plan import RunPlan
from emu.run_dtypes import DISTANCES, Cost, Ctx, Kind, Stage, Touch

NOBODY = -1
KINDS = len(Kind)
STAGE_KINDS = len(Stage) * KINDS
CELLS = len(Ctx) * STAGE_KINDS
BYTES, LINES = int(Kind.BYTES), int(Kind.LINES)
LINE_BYTES = 64
TCP = 6
NOT_AT_HAND = 1  # column of the line table where no packet is at hand


def proto_column(ip_proto: int) -> int:
    """Column of the line table: 0 for TCP, 1 for all else."""
    return 0 if ip_proto == TCP else 1


class Prices:
    """A plan's cost tables as plain lists."""

    def __init__(self, plan: RunPlan) -> None:
        self.costs: list[int] = plan.costs.tolist()
        self.transfer: list[int] = plan.transfer.tolist()
        self.stream: list[int] = plan.stream.tolist()
        self.lines: list[list[int]] = plan.lines.tolist()
        self.distance: list[list[int]] = plan.distance.tolist()


@dataclass(slots=True, eq=False)
class Line:
    """A shared object; it remembers the CPU that touched it last."""

    last: int = NOBODY


@dataclass(slots=True, eq=False)
class SharedLine(Line):
    """A line that CPUs also read: who has seen what was written last."""

    seen: set[int] = field(default_factory=set)


class Payer:
    """A CPU as one who pays. Every cost of the step at hand goes through it.

    Attributes:
        number: of the CPU.
        ctx: context that pays now (`Ctx`).
        spent: what the step that is being put together costs so far, 1/1024 cycle.
        cells: everything paid, by context, stage and kind.
        transfers: lines by distance.
    """

    def __init__(self, number: int, prices: Prices) -> None:
        self.number = number
        self.ctx: int = int(Ctx.IDLE)
        self.spent = 0
        self.cells = [0] * CELLS
        self.transfers = [0] * len(DISTANCES)
        self.prices = prices

    def pay(self, row: Cost, stage: Stage, times: int = 1) -> None:
        """A base cost."""
        self.pay_cost(self.prices.costs[row] * times, stage)

    def pay_cost(self, cost: int, stage: Stage) -> None:
        """A base cost that is no row of the table."""
        self.spent += cost
        self.cells[self.ctx * STAGE_KINDS + stage * KINDS] += cost

    def pay_bytes(self, row: Cost, stage: Stage, count: int) -> None:
        """A cost for each of *count* bytes."""
        cost = self.prices.costs[row] * count
        self.spent += cost
        self.cells[self.ctx * STAGE_KINDS + stage * KINDS + BYTES] += cost

    def pay_lines(self, cost: int, stage: Stage) -> None:
        """A cost of memory."""
        self.spent += cost
        self.cells[self.ctx * STAGE_KINDS + stage * KINDS + LINES] += cost

    def touch(self, line: Line, row: Touch, stage: Stage, proto: int) -> None:
        """Write an object: its lines come from the CPU that touched it last, if that is another."""
        before, line.last = line.last, self.number
        if before not in (NOBODY, self.number):
            self.fetch(before, row, stage, proto)

    def fetch(self, owner: int, row: Touch, stage: Stage, proto: int) -> None:
        """Lines that another CPU wrote last come over."""
        prices = self.prices
        lines, distance = prices.lines[row][proto], prices.distance[owner][self.number]
        self.transfers[distance] += lines
        self.pay_lines(lines * prices.transfer[distance], stage)

    def write(self, line: SharedLine, row: Touch, stage: Stage, proto: int) -> None:
        """Touch a line that others read."""
        self.touch(line, row, stage, proto)
        line.seen = {self.number}

    def read(self, line: SharedLine, row: Touch, stage: Stage, proto: int) -> None:
        """Read a line: it comes over if another CPU has written it since this one saw it last."""
        if line.last != NOBODY and self.number not in line.seen:
            line.seen.add(self.number)
            self.fetch(line.last, row, stage, proto)

    def stream(self, owner: int, count: int, stage: Stage) -> None:
        """Read *count* bytes in a row that *owner* wrote: the prefetcher sees them coming."""
        lines, distance = -(-count // LINE_BYTES), self.prices.distance[owner][self.number]
        if owner != self.number:
            self.transfers[distance] += lines
        self.pay_lines(lines * self.prices.stream[distance], stage)
