"""Rules made of data alone: those of rules.toml with a condition `when`, and those of a site.

Such a rule chooses files, and gives its conditions and its seconds as expressions over the measures of these files
(`MEASURES`). A site's file has notes on rules of ioweather, and rules of its own:

    [note.small_requests]
    text = "Our guide to buffering: https://docs.example.org/io"

    [rule.home_as_scratch]
    headline = "data in /home"
    dimension = "metadata"
    mounts = ["/home"]
    files = ["written"]
    when = ["write_bytes >= 10 * GiB"]
    saves = "seconds / 2"
    evidence = "{write_bytes} written to /home"
    fix = ["cd /scratch/$USER"]
"""

from __future__ import annotations

import ast
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from fnmatch import translate
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any, Final, get_args

import numpy as np

from ioweather.core.errors import FacilityError
from ioweather.core.frames import Bools
from ioweather.core.tables import READ_BINS, WRITE_BINS
from ioweather.core.units import GIB, KIB, MIB, format_bytes, format_seconds
from ioweather.job_io.advisor.expected_savings import Dimension, Part, Rule
from ioweather.job_io.advisor.fixes import Pattern, directory_of
from ioweather.job_io.advisor.parallel_rules import seconds_between_writes
from ioweather.job_io.advisor.profile import NOTICEABLE_SHARE, Profile

# The site's file, if IOWEATHER_ADVICE does not name another.
SITE_FILE: Final = Path("/etc/ioweather/advice.toml")
_TINY_BINS: Final = (*READ_BINS[:3], *WRITE_BINS[:3])  # up to 10 KiB

_FILES: Final[Mapping[str, Callable[[Profile], Bools]]] = {
    "shared": lambda p: p.shared,
    "own": lambda p: ~p.shared,
    "read": lambda p: p.ints("read_bytes") > 0,
    "written": lambda p: p.ints("write_bytes") > 0,
    "small": lambda p: (p.file_bytes < MIB) & p.moved_rows,
    "large": lambda p: p.file_bytes >= GIB,
    "independent": lambda p: ~p.collective,
    "hdf5": lambda p: p.records.text("library").equals("HDF5"),
}


def _sum_of(column: str) -> Callable[[Profile, Bools], Any]:
    """Return the measure that adds up a column of the chosen files."""
    return lambda p, rows: p.ints(column)[rows].sum(dtype=np.float64)


def _measure_seconds(column: str) -> Callable[[Profile, Bools], Any]:
    """Return seconds by which the run would be shorter without these."""
    return lambda p, rows: p.saving(np.where(rows, p.seconds(column), 0.0))


def _count_tiny_requests(profile: Profile, rows: Bools) -> Any:
    """Return requests at the file system of up to 10 KiB on these files."""
    mine = np.isin(profile.records.file, np.unique(profile.records.file[rows])) & profile.at_storage
    return sum(profile.ints(name)[mine].sum() for name in _TINY_BINS)


# Numbers of the chosen files and of the run, as expressions of rules name them.
MEASURES: Final[Mapping[str, Callable[[Profile, Bools], Any]]] = {
    "processes": lambda p, rows: p.nprocs,
    "nodes": lambda p, rows: p.nodes,
    "targets": lambda p, rows: p.known_targets,  # of the file system; infinite if unknown
    "run_seconds": lambda p, rows: p.run_seconds or 0.0,
    "io_seconds": lambda p, rows: p.io_seconds or 0.0,
    "between_seconds": lambda p, rows: seconds_between_writes(p),
    "files": lambda p, rows: p.files_in(rows),
    "small_files": lambda p, rows: p.files_in(p.counted & _FILES["small"](p)),
    "read_bytes": _sum_of("read_bytes"),
    "write_bytes": _sum_of("write_bytes"),
    "moved_bytes": lambda p, rows: p.moved[rows].sum(dtype=np.float64),
    "largest_file_bytes": lambda p, rows: p.file_bytes[rows].max(initial=0.0),
    "requests": lambda p, rows: p.operations[rows].sum(),
    "request_bytes": lambda p, rows: p.moved[rows].sum(dtype=np.float64) / max(p.operations[rows].sum(), 1),
    "tiny_requests": _count_tiny_requests,
    "stripe_count": lambda p, rows: p.ints("stripe_count")[rows].max(initial=0),
    "twice_stripes": lambda p, rows: 2 * p.ints("stripe_count")[rows].max(initial=0),
    "stripe_bytes": lambda p, rows: p.ints("stripe_bytes")[rows].max(initial=0),
    "seconds": lambda p, rows: p.saving(np.where(rows, p.spent, 0.0)),
    "read_seconds": _measure_seconds("read_seconds"),
    "write_seconds": _measure_seconds("write_seconds"),
    "meta_seconds": _measure_seconds("meta_seconds"),
    # Time of the bytes at the highest rate that storage can deliver to this run.
    "needed_seconds": lambda p, rows: p.moved[rows].sum(dtype=np.float64) / p.deliverable_bytes_per_s,
    # Time that the targets of the largest file need for it.
    "target_seconds": lambda p, rows: (
        p.file_bytes[rows].max(initial=0.0) / max(p.ints("stripe_count")[rows].max(initial=1), 1) / p.target_bytes_per_s
    ),
}
_NUMBERS: Final = {"KiB": KIB, "MiB": MIB, "GiB": GIB}
_CALLS: Final = {"min": min, "max": max}
_ALLOWED: Final = (
    *(ast.Expression, ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.Compare, ast.Call),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.Eq),
)


@cache
def _compile_expression(text: str) -> CodeType:
    """Compile an expression. Raises ValueError for anything but arithmetic, comparisons and known measures."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"{text!r} is not an expression") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in MEASURES.keys() | _NUMBERS.keys() | _CALLS.keys():
            raise ValueError(f"{text!r}: {node.id} is not a measure. Measures: {', '.join(sorted(MEASURES))}")
        is_known_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Call) and not is_known_call):
            raise ValueError(f"{text!r}: only numbers, measures, + - * /, comparisons, min and max are allowed")
    return compile(tree, "rule", "eval")


class _Measured(dict[str, Any]):
    """Measures of the chosen files, each computed when an expression names it. A division by 0 is infinite."""

    def __init__(self, profile: Profile, rows: Bools) -> None:
        super().__init__(_NUMBERS | _CALLS)
        self.profile, self.rows = profile, rows

    def __missing__(self, name: str) -> Any:
        self[name] = np.float64(MEASURES[name](self.profile, self.rows))
        return self[name]


class _Words(dict[str, str]):
    """Measures as words, by their units."""

    def __init__(self, measured: _Measured) -> None:
        super().__init__(folder=directory_of(measured.profile, measured.rows))
        self.measured = measured

    def __missing__(self, name: str) -> str:
        if name == "request_power":  # the power of two next to the mean request, at least 1 MiB
            size = 2.0 ** max(20, round(math.log2(self.measured["request_bytes"] or MIB)))
            return format_bytes(size).replace(" ", "").replace("iB", "")
        value = float(self.measured[name])
        if name.endswith("_bytes"):
            return format_bytes(value)
        return format_seconds(value) if name.endswith("seconds") else f"{value:,.0f}"


# Keys of an entry by which a rule finds its pattern; the rest describes the rule.
_REQUIRED: Final = frozenset({"when", "saves", "evidence", "fix"})
_KEYS: Final = _REQUIRED | {"fix_python", "files", "paths", "filesystems", "mounts"}


@cache
def _compile_patterns(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile shell patterns into one regular expression for whole names."""
    return re.compile("|".join(map(translate, patterns)))


def find_declared(entry: Mapping[str, Any], profile: Profile) -> Pattern | None:
    """Return the pattern if its conditions hold and it saves a second, and a noticeable part of the I/O time."""
    if profile.filesystem not in (entry.get("filesystems") or (profile.filesystem,)):
        return None
    rows = profile.counted.copy()
    for name in entry.get("files", ()):
        rows &= _FILES[name](profile)
    for column in ("path", "mount"):
        if patterns := entry.get(f"{column}s"):
            text, matches = profile.records.text(column), _compile_patterns(tuple(patterns)).match
            rows &= np.array([*(matches(name) is not None for name in text.categories), False], np.bool_)[text.codes]
    if not rows.any():
        return None
    measured = _Measured(profile, rows)
    values = [
        eval(_compile_expression(text), {"__builtins__": {}}, measured) for text in (*entry["when"], entry["saves"])
    ]
    saved = values.pop()
    if not all(values) or not saved >= max(1.0, NOTICEABLE_SHARE * (profile.io_seconds or 0.0)):
        return None
    words = _Words(measured)
    fix = (entry.get("fix_python") if profile.python else None) or entry["fix"]
    lines = tuple(line.format_map(words) for line in fix)
    return Pattern(entry["evidence"].format_map(words), float(saved), lines, rows)


def declared_rule(name: str, entry: Mapping[str, Any]) -> Rule:
    """Return the rule of an entry with `when`. Raises ValueError or TypeError if it cannot be used."""
    if missing := _REQUIRED - entry.keys():
        raise ValueError(f"lacks {', '.join(sorted(missing))}")
    for text in (*entry["when"], entry["saves"]):
        _compile_expression(text)
    if unknown := set(entry.get("files", ())) - _FILES.keys():
        raise ValueError(f"files: {', '.join(sorted(unknown))} is unknown. Choose from: {', '.join(_FILES)}")
    described: dict[str, Any] = {"tried": False}
    for key in entry.keys() - _KEYS:
        described[key] = tuple(entry[key]) if isinstance(entry[key], list) else entry[key]
    # No pair of runs before and after such a change is recorded.
    return Rule(name, find=partial(find_declared, entry), **described)


_OF_SITE: Final = {
    **dict.fromkeys(("trigger", "model"), "set by this site"),
    "part": "layout",
    "sources": (),
    "before": "",
    "after": "",
    "same_bytes": False,
}


def site_advice() -> tuple[Mapping[str, str], tuple[Rule, ...]]:
    """Return a site's notes, by the name of the rule, and its own rules, if there is such a file.

    Raises FacilityError, which names the file and the key.
    """
    named = os.environ.get("IOWEATHER_ADVICE")
    path = Path(named) if named else SITE_FILE
    if not named and not path.is_file():
        return {}, ()
    try:
        # Parse a site's notes and rules. Raises ValueError or TypeError.
        text = path.read_text("utf-8")
        found = tomllib.loads(text)
        if unknown := set(found) - {"note", "rule"}:
            raise ValueError(f"unknown key {', '.join(sorted(unknown))}; valid keys: note, rule")
        for name, note in found.get("note", {}).items():
            if set(note) != {"text"} or not isinstance(note["text"], str):
                raise ValueError(f"[note.{name}] needs `text`, a sentence, and no other key")
        rules = []
        for name, entry in found.get("rule", {}).items():
            if entry.get("dimension") not in get_args(Dimension) or entry.get("part", "layout") not in get_args(Part):
                raise ValueError(f"[rule.{name}] needs `dimension`, one of {', '.join(get_args(Dimension))}")
            try:
                rules.append(declared_rule(name, _OF_SITE | entry))
            except (ValueError, TypeError) as error:
                raise ValueError(f"[rule.{name}] {error}") from None
        return {name: note["text"] for name, note in found.get("note", {}).items()}, tuple(rules)
    except OSError as error:
        raise FacilityError(
            f"{path} cannot be read: {error.strerror}.", hint="IOWEATHER_ADVICE sets this path."
        ) from None
    except (ValueError, TypeError) as error:
        raise FacilityError(f"{path}: {error}.") from None
