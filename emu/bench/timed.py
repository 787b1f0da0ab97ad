"""The two timed experiments: fitted to *before*, predicted *after*, beside what was published."""

from __future__ import annotations

from pathlib import Path

import attrs

from emu.ask.answer import Answer, answer_scenario, answer_steps
from emu.ask.scenarios import Pair, Setting
from emu.bench.shapes import SHAPED, SHAPES, Shaped, run_shape, shape_cases
from emu.io.scenarios import Scenario, load_scenario
from emu.io.toml import load_toml
from emu.progress import Progress
from emu.result.run import METRICS
from emu.units import format_duration_ps, parse_duration_ps

FOLDER = Path(__file__).parent.parent / "scenarios"
TIMED = ("xps", "incoming-cpu-mask")
QUICK = 4  # a quick run measures that part of the time,
QUICK_SEEDS = 3  # with so many seeds,
QUICK_TOLERANCE = 0.01  # and fits no closer
SENSITIVE_SEEDS = 4
SHAPE_SEEDS = 2  # shapes are compared with each other: common seeds


@attrs.frozen(kw_only=True, eq=False)
class Timed:
    """What one experiment gave.

    Attributes:
        id: of the experiment, and the name of its scenario file.
        answer: fits, both sides of every case, published rows beside emulated.
        shapes: other choices of what the text does not publish.
    """

    id: str
    answer: Answer
    shapes: list[Shaped]

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, "A timed experiment"."""
        scenario, setting = self.answer.scenario, self.answer.setting
        return {
            "id": self.id,
            "title": scenario.title,
            "text": scenario.text,
            "seeds": setting.seeds,
            "duration": setting.duration,
            **self.answer.judged_json(),
            "also": [self.variant_json(pair) for pair in self.answer.variants()],
            "shapes": [shape.to_json() for shape in self.shapes],
        }

    def variant_json(self, pair: Pair) -> dict[str, object]:
        """docs/bench-json.md, "A variant"."""
        return {
            "label": pair.case.label,
            "text": pair.case.text,
            "fit_of": self.answer.fit_of(pair.case.label),
            "before": {name: pair.before.metric(name).value for name in METRICS},
            "after": {name: pair.after.metric(name).value for name in METRICS},
            "ratios": {name: pair.ratio(name).to_json() for name in METRICS},
        }


def timed_setting(scenario: Scenario, *, seed: int, quick: bool, engine: str) -> Setting:
    """Seeds and times: the file's, or fewer and shorter."""
    setting = attrs.evolve(Setting.of(scenario, engine), seed=scenario.seed + seed)
    if not quick:
        return setting
    return attrs.evolve(
        setting,
        seeds=min(QUICK_SEEDS, setting.seeds),
        duration=format_duration_ps(max(parse_duration_ps(setting.duration) // QUICK, 1)),
        warmup=format_duration_ps(parse_duration_ps(setting.warmup) // QUICK),
        tolerance=QUICK_TOLERANCE,
    )


def sensitive_setting(scenario: Scenario, *, seed: int, quick: bool, engine: str) -> Setting:
    """Fewer seeds for the many runs of a sensitivity table."""
    setting = timed_setting(scenario, seed=seed, quick=quick, engine=engine)
    return attrs.evolve(setting, seeds=1 if quick else min(SENSITIVE_SEEDS, setting.seeds))


def timed_steps(name: str) -> int:
    """How many steps of progress `run_timed` takes."""
    return answer_steps(load_timed(name)) + len(SHAPED[name]) * len(SHAPES[name])


def load_timed(name: str) -> Scenario:
    """The scenario of one experiment."""
    return load_scenario(FOLDER / f"{name}.toml")


def run_timed(
    name: str, *, seed: int = 0, quick: bool = False, engine: str = "core", progress: Progress
) -> Timed:
    """Fit, run every case, judge the published rows, and run the shapes."""
    scenario = load_timed(name)
    setting = timed_setting(scenario, seed=seed, quick=quick, engine=engine)
    answer = answer_scenario(
        scenario,
        setting,
        begin=lambda step: progress.step(f"{name}: {step}"),
        share=progress.part,
    )
    return Timed(id=name, answer=answer, shapes=run_shapes(name, answer, progress))


def run_shapes(name: str, answer: Answer, progress: Progress) -> list[Shaped]:
    """The other choices, each fitted anew."""
    seeds = min(SHAPE_SEEDS, answer.setting.seeds)
    few = attrs.evolve(answer.setting, seeds=seeds, tolerance=QUICK_TOLERANCE)
    tables, shapes = load_toml(FOLDER / f"{name}.toml"), SHAPES[name]
    out = []
    for label in SHAPED[name]:
        cases = shape_cases(tables, label, shapes)
        for shape, case in zip(shapes, cases, strict=True):
            progress.step(f"{name}: {label}, {shape.name}")
            out.append(run_shape(answer.scenario, label, shape, case, few, answer.fits[label]))
    return out
