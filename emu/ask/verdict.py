"""A published row beside the emulated one: the ratios, how far apart they are, a word for it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from emu.ask.scenarios import Pair
from emu.model.published import Published
from emu.result.estimate import Estimate

WITHIN = 0.05  # of the ratio
LATENCIES = ("p50", "p90", "p99")
HALF, TWICE = 0.5, 2.0
PER_MESSAGE = "cpu_us_per_message"
SMALL_CHANGE = 0.005  # a published change below counts as none: its last digit


@attrs.frozen(kw_only=True)
class Judged:
    """One published row, what was emulated, and the verdict.

    Attributes:
        published: the row.
        before, after: emulated, in the row's unit.
        ratio: emulated, after / before, with its 95 % interval over the seeds.
        calibrated: numbers that were fitted to this row's *before*.
        verdict: words; the ratio alone decides.
    """

    published: Published
    before: float | None
    after: float | None
    ratio: Estimate
    calibrated: tuple[str, ...]
    verdict: str

    @property
    def published_ratio(self) -> float:
        """After / before, published."""
        return self.published.after / self.published.before

    @property
    def error(self) -> float | None:
        """How far the emulated ratio is from the published one, relatively."""
        return None if self.ratio.value is None else self.ratio.value / self.published_ratio - 1

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, "A row"."""
        ends = self.ratio.interval
        return {
            "label": self.published.label,
            "metric": self.published.metric,
            "unit": self.published.unit,
            "published": {"before": self.published.before, "after": self.published.after},
            "emulated": {
                "before": self.before,
                "after": self.after,
                "ci": None if ends is None else list(ends),
            },
            "ratio": {
                "published": self.published_ratio,
                "emulated": self.ratio.value,
                "error": self.error,
            },
            "calibrated": list(self.calibrated),
            "verdict": self.verdict,
        }


@attrs.frozen(kw_only=True, eq=False)
class PerMessage:
    """CPU time of one message, which a text does not print but two of its rows give.

    Attributes:
        label: whose.
        published: after / before.
        ratio: emulated, with its 95 % interval over the seeds.
    """

    label: str
    published: float
    ratio: Estimate

    @property
    def error(self) -> float | None:
        """How far the emulated ratio is from the published one, relatively."""
        return None if self.ratio.value is None else self.ratio.value / self.published - 1

    @property
    def verdict(self) -> str:
        """As of a row."""
        return verdict("cpu", self.published, self.ratio)

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, ``derived``."""
        ends = self.ratio.interval
        return {
            "label": self.label,
            "name": PER_MESSAGE,
            "ratio": {
                "published": self.published,
                "emulated": self.ratio.value,
                "ci": None if ends is None else list(ends),
                "error": self.error,
            },
            "verdict": self.verdict,
        }


def judge(row: Published, pair: Pair, *, fitted: bool = True) -> Judged:
    """Compare one row.

    Args:
        row: what was published.
        pair: what was emulated.
        fitted: the pair's fit is to rows of this label, not one that it took from another.
    """
    before, after = (
        side.metric(row.metric).scaled(1 / row.scale).value for side in (pair.before, pair.after)
    )
    ratio = pair.ratio(row.metric)
    numbers = pair.fit.fitted if pair.fit and fitted else {}
    return Judged(
        published=row,
        before=before,
        after=after,
        ratio=ratio,
        calibrated=tuple(name for name, metric in numbers.items() if metric == row.metric),
        verdict=verdict(row.metric, row.after / row.before, ratio),
    )


def per_message(rows: Mapping[str, Published], pair: Pair) -> PerMessage | None:
    """CPU time of one message, published and emulated; None where the text does not give it.

    Args:
        rows: metric -> published row of the pair's label.
        pair: what was emulated.
    """
    if not {"cpu", "throughput"} <= rows.keys():
        return None
    ratios = {name: rows[name].after / rows[name].before for name in ("cpu", "throughput")}
    return PerMessage(
        label=pair.case.label,
        published=ratios["cpu"] / ratios["throughput"],
        ratio=pair.ratio(PER_MESSAGE),
    )


def verdict(metric: str, published: float, emulated: Estimate) -> str:
    """Words for an emulated ratio beside a published one.

    First the change: "as published" where none was published and none came out; "right sign, half
    to twice", "less than half", "more than twice" of it; "sign unclear" when the
    interval holds 1; "wrong sign". A change for the worse that did not come out is "not explained":
    no mechanism of the model gives it. Then "within 5 %" if the ratio is.
    """
    if emulated.value is None:
        return "nothing measured"
    near = abs(emulated.value / published - 1) <= WITHIN
    words = change_words(metric, published, emulated)
    return f"{words}; within 5 %" if near else words


def change_words(metric: str, published: float, emulated: Estimate) -> str:
    """The words for the change alone."""
    assert emulated.value is not None
    wanted, got = published - 1, emulated.value - 1
    ends = emulated.interval
    told_apart = ends is None or not ends[0] <= 1 <= ends[1]
    if abs(wanted) < SMALL_CHANGE:
        return "as published" if abs(got) < SMALL_CHANGE or not told_apart else "a change too many"
    right = told_apart and (wanted > 0) == (got > 0)
    if not right and is_worse(metric, published):
        return "not explained"
    if not told_apart:
        return "sign unclear"
    if not right:
        return "wrong sign"
    share = got / wanted
    if share < HALF:
        return "right sign, less than half"
    return "right sign, more than twice" if share > TWICE else "right sign, half to twice"


def is_worse(metric: str, ratio: float) -> bool:
    """Whether the change is one that nobody wants."""
    return ratio < 1 if metric == "throughput" else ratio > 1
