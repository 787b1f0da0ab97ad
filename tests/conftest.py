"""Fixtures every test may use. No test names an implementation: it asks `engine` for a module."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from emu.intake import from_frames
from emu.model.host import Host
from emu.model.ops import Op
from emu.model.polls import Polls
from emu.result.decisions import Decisions
from emu.steering import steer
from tests.rules_drawn import (  # noqa: F401  (hooks: pytest finds them by name)
    pytest_configure,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

settings.register_profile(
    "default",
    deadline=None,
    print_blob=True,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")

PACKAGES = {"core": "emu._core", "ref": "emu.ref"}


@pytest.fixture(params=["core", "ref"])
def engine(request: pytest.FixtureRequest) -> Callable[[str], ModuleType]:
    """Give the engine under test: ``engine("rss")`` is its module of a stage; ``engine.name``."""

    def stage(name: str) -> ModuleType:
        return importlib.import_module(f"{PACKAGES[request.param]}.{name}")

    stage.name = request.param  # type: ignore[attr-defined]
    return stage


@pytest.fixture
def decide(engine: Callable[[str], ModuleType]) -> Callable[..., Decisions]:
    """Steer frames with the engine under test; they arrive at time 0, or at *at_us* each."""

    def run(
        host: Host,
        frames: list[bytes],
        at_us: int | list[int] = 0,
        ops: Sequence[Op] = (),
        polls: Polls | None = None,
    ) -> Decisions:
        times = at_us if isinstance(at_us, list) else [at_us] * len(frames)
        packets = from_frames(frames, arrival_ps=[time * 1_000_000 for time in times])
        name = engine.name  # type: ignore[attr-defined]
        return steer(host, packets, ops=ops, polls=polls, engine=name)

    return run
