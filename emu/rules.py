"""The kernel's rules by name: what each says, where it holds, what is left out (rules.toml)."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import attrs

PLACES = ("decision", "model", "run", "out")


@attrs.frozen(kw_only=True)
class Rule:
    """One rule.

    Attributes:
        name: such as ``"GRO-26"``.
        says: one sentence.
        kernels: where it holds, if not in every kernel.
        where: ``"decision"``: both engines ask it; ``"model"``: when a host is written down;
            ``"run"``: a matter of time; ``"out"``: not modelled.
        why: with ``"out"``, the reason.
    """

    name: str
    says: str
    kernels: str = ""
    where: str = "decision"
    why: str = ""


@cache
def rules() -> dict[str, Rule]:
    """Every rule, in the file's order."""
    text = files("emu").joinpath("rules.toml").read_text(encoding="utf-8")
    out = {}
    for family, entries in tomllib.loads(text).items():
        for number, entry in entries.items():
            name = f"{family}-{number}"
            told = {"says": entry} if isinstance(entry, str) else entry
            out[name] = Rule(name=name, **told)
    return out


def rule_names() -> list[str]:
    """Names of the rules that both engines ask."""
    return [name for name, rule in rules().items() if rule.where == "decision"]
