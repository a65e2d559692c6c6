"""Every pattern that looks at what others wrote takes time in proportion to the text, whatever the text is."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ioweather
from pattern_ambiguity import degree

_SEARCHES = ("search", "findall", "finditer", "sub", "subn", "split")
_CALLS = (*_SEARCHES, "match", "fullmatch")
# Those that take text from files, from the network or from the command line.
_PACKAGES = ("agent", "core", "facts", "ingestion", "lake", "readers", "ui/web")


def _modules() -> list[str]:
    top = Path(ioweather.__file__).parent
    files = (file for package in _PACKAGES for file in sorted((top / package).rglob("*.py")))
    named = [file.relative_to(top.parent).with_suffix("") for file in files if "import re\n" in file.read_text("utf-8")]
    return [".".join(file.parts) for file in named]


def _patterns(module_name: str) -> Iterator[tuple[str, str | bytes, int, set[str]]]:
    """(where, pattern, flags, the ways it is used)."""
    module = importlib.import_module(module_name)
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    compiled = {name: value for name, value in vars(module).items() if isinstance(value, re.Pattern)}
    uses: dict[str, set[str]] = {name: set() for name in compiled}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CALLS:
            owner = node.func.value
            name = owner.id if isinstance(owner, ast.Name) else ""
            if name in compiled:
                uses[name].add(node.func.attr)
            elif name == "re" and node.args and isinstance(node.args[0], ast.Constant):
                yield f"{module_name}:{node.lineno}", node.args[0].value, 0, {node.func.attr}
    for name, pattern in compiled.items():
        # One that is handed on may be used in any way.
        yield f"{module_name}.{name}", pattern.pattern, pattern.flags, uses[name] or set(_CALLS)


# Of the first the caller makes sure that it fits wherever it is tried; the second is possessive, and tries nothing
# twice. The others read files of this project, columns of the lake, and settings of the administrator.
_EXCEPT = (
    "ioweather.readers.darshan.binary._ENTRY",
    "ioweather.readers.darshan.binary._ENTRIES",
    "ioweather.core.papers.__init__._PRINTED",
    "ioweather.core.tables.schema._NUMBERS",
    "ioweather.core.tables.schema._HISTOGRAM",
    "ioweather.lake.workers._WALLTIME",
    "ioweather.lake.workers._MEMORY",
)
PATTERNS = [found for name in _modules() for found in _patterns(name) if found[0] not in _EXCEPT]


@pytest.mark.parametrize(("where", "pattern", "flags", "calls"), PATTERNS, ids=[where for where, *_ in PATTERNS])
def test_takes_linear_time(where, pattern, flags, calls):
    found = degree(pattern, flags, searches=bool(calls & set(_SEARCHES)), whole="fullmatch" in calls)
    assert found == "linear", f"{where}: {pattern!r}"


@pytest.mark.parametrize(
    ("pattern", "searches", "found"),
    [
        ("a+b", False, "linear"), ("^a+b", True, "linear"), (r"(\S+)\t(\S+)$", False, "linear"),
        ("a+b", True, "polynomial"), ("a*a*b", False, "polynomial"), ("x*y?x*z", False, "polynomial"),
        ("(a+)+b", False, "exponential"), ("(a*)*b", False, "exponential"), ("(a|ab|b)*c", False, "exponential"),
        (r"[a-z][\w-]*(?:\.[^\s=]+)+=(.*)", False, "exponential"),
    ],
)  # fmt: skip
def test_what_is_known_of_some(pattern, searches, found):
    """`a+b` is tried from every letter of `aaaa`; the rest is in every text on catastrophic backtracking."""
    assert degree(pattern, searches=searches).partition(":")[0] == found
