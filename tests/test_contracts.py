"""The rules of the house that a machine can check."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext

SRC = Path(__file__).resolve().parents[1] / "src" / "ioweather"
MODULES = sorted(SRC.rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "util", "misc"}


def test_modules_say_what_they_are_for_and_stay_short():
    assert [complaint for module in MODULES for complaint in _complaints(module)] == []


def _complaints(module):
    text = module.read_text()
    tree = ast.parse(text)
    if text.strip() and not ast.get_docstring(tree):
        yield module, "no docstring"
    if text.count("\n") > 900:
        yield module, "over 900 lines: would two names explain it better?"
    if module.stem in FORBIDDEN_NAMES:
        yield module, "a name that says nothing"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.end_lineno or 0) - node.lineno > 90:
            yield module, f"{node.name} is over 90 lines"


def test_layers_and_forbidden_imports_are_kept():
    """The same contracts that `make lint` checks, in a process of their own: the checker silences other loggers."""
    command = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
    checked = subprocess.run([sys.executable, "-c", command], cwd=SRC.parents[1], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ReadContext)])
def test_every_setting_of_a_file_can_be_given_and_is_used(name):
    def some(folders, pattern):
        return any(re.search(pattern, path.read_text()) for folder in folders for path in (SRC / folder).rglob("*.py"))

    assert some(("ui", "ingestion"), rf"\b{name}=")
    assert some(("readers", "ingestion", "core"), rf"\b(context|self)\.{name}\b")
