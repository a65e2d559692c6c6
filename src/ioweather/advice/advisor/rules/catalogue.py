"""Every rule, in the order in which those that cost the same are told: its words are in rules.toml, and the function of
its name looks for the pattern."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final

from ioweather.advice.advisor.rule import Rule
from ioweather.advice.advisor.rules import layout, metadata, mpiio, ranks, requests

_MODULES: Final = {"layout": layout, "metadata": metadata, "mpiio": mpiio, "ranks": ranks, "requests": requests}


def _rules() -> tuple[Rule, ...]:
    text = files("ioweather.advice.advisor.rules").joinpath("rules.toml").read_text("utf-8")
    return tuple(
        Rule(name, look=getattr(_MODULES[said.pop("module")], name), **said)
        for name, said in tomllib.loads(text).items()
    )


RULES: Final = _rules()
