"""Fixtures every test may use. No test names an implementation: it asks `engine` for a module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

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
