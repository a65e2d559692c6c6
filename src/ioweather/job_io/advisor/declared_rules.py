"""Rules made of data alone: those of rules.toml with a condition `when`, and those of a site.

Such a rule chooses files, and gives its conditions and its seconds as expressions over the measures of these files
(`Measures`). A site's file has notes on rules of ioweather, and rules of its own:

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
import operator
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np

from ioweather.core.arrays import Bools
from ioweather.core.errors import FacilityError
from ioweather.core.units import GIB, KIB, MIB, NS, format_bytes, format_seconds
from ioweather.job_io.advisor.fixes import directory_of
from ioweather.job_io.advisor.profile import VERBS, Dimension, Part, Profile, Rule, Seen

# The site's file, if IOWEATHER_ADVICE does not name another.
SITE_FILE: Final = Path("/etc/ioweather/advice.toml")
# A declared rule is silent if it saves less than a second, or less than this part of the I/O time.
FELT_SHARE: Final = 0.01
_TINY_BINS: Final = 3  # up to 10 KiB
_POWER_OF_TWO: Final = 2.0

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


@dataclass(frozen=True, eq=False)
class Measures:
    """Numbers of the chosen files and of the run, as expressions of rules name them. Seconds of files are those by
    which the run would be shorter without them."""

    profile: Profile
    rows: Bools

    def total(self, name: str) -> float:
        return float(self.profile.ints(name)[self.rows].sum(dtype=np.float64))

    def wall(self, name: str) -> float:
        return self.profile.saving(np.where(self.rows, self.profile.seconds(name), 0.0))

    @property
    def processes(self) -> float:
        return self.profile.nprocs

    @property
    def nodes(self) -> float:
        return self.profile.nodes

    @property
    def targets(self) -> float:
        """Targets of the file system; infinite if unknown."""
        return self.profile.known_targets

    @property
    def run_seconds(self) -> float:
        return self.profile.run_seconds or 0.0

    @property
    def io_seconds(self) -> float:
        return self.profile.io_seconds or 0.0

    @property
    def between_seconds(self) -> float:
        """Time without I/O between the run's first and last write."""
        first, last = self.profile.row["first_write_ns"], self.profile.row["last_write_ns"]
        return max(0.0, (last - first) / NS - self.io_seconds) if first is not None and last is not None else 0.0

    @property
    def files(self) -> float:
        return self.profile.files_moved(self.rows)

    @property
    def small_files(self) -> float:
        """Files of the run under 1 MiB."""
        return self.profile.files_moved(self.profile.counted & _FILES["small"](self.profile))

    @property
    def read_bytes(self) -> float:
        return self.total("read_bytes")

    @property
    def write_bytes(self) -> float:
        return self.total("write_bytes")

    @property
    def moved_bytes(self) -> float:
        return self.read_bytes + self.write_bytes

    @property
    def largest_file_bytes(self) -> float:
        return float(self.profile.file_bytes[self.rows].max(initial=0.0))

    @property
    def requests(self) -> float:
        return float(self.profile.operations[self.rows].sum())

    @property
    def request_bytes(self) -> float:
        """The mean request."""
        return self.moved_bytes / self.requests if self.requests else 0.0

    @property
    def request_power_bytes(self) -> float:
        """The power of two next to the mean request, at least 1 MiB."""
        return _POWER_OF_TWO ** max(20, round(math.log2(self.request_bytes))) if self.request_bytes else float(MIB)

    @property
    def tiny_requests(self) -> float:
        """Requests at the file system of up to 10 KiB."""
        mine = np.isin(self.profile.records.file, np.unique(self.profile.records.file[self.rows]))
        return float(
            sum(self.profile.bin_count(verb, _TINY_BINS)[mine & self.profile.at_storage].sum() for verb in VERBS)
        )

    @property
    def stripe_count(self) -> float:
        return float(self.profile.ints("stripe_count")[self.rows].max(initial=0))

    @property
    def stripe_bytes(self) -> float:
        return float(self.profile.ints("stripe_bytes")[self.rows].max(initial=0))

    @property
    def seconds(self) -> float:
        return self.profile.saving(np.where(self.rows, self.profile.spent, 0.0))

    @property
    def read_seconds(self) -> float:
        return self.wall("read_seconds")

    @property
    def write_seconds(self) -> float:
        return self.wall("write_seconds")

    @property
    def meta_seconds(self) -> float:
        return self.wall("meta_seconds")

    @property
    def needed_seconds(self) -> float:
        """Time of the bytes at the highest rate that storage can deliver to this run."""
        return self.moved_bytes / self.profile.deliverable[0]

    @property
    def target_seconds(self) -> float:
        """Time that the targets of the largest file need for it."""
        return self.largest_file_bytes / (max(self.stripe_count, 1.0) * self.profile.target_bytes_per_s)


_NUMBERS: Final = {"KiB": float(KIB), "MiB": float(MIB), "GiB": float(GIB)}
_CALLS: Final = {"min": min, "max": max}
_OPERATORS: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Eq: operator.eq,
    ast.Div: lambda a, b: a / b if b else math.inf,
}  # fmt: skip
MEASURES: Final = frozenset(
    name for name, value in vars(Measures).items() if isinstance(value, (property, cached_property))
)


@cache
def parse(text: str) -> ast.expr:
    """Parse an expression of a rule. Raises ValueError for anything but arithmetic, comparisons and known measures."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} is not an expression") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in MEASURES | _NUMBERS.keys() | _CALLS.keys():
            raise ValueError(f"{text!r}: {node.id} is not a measure; known: {', '.join(sorted(MEASURES))}")
        allowed = (ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.Compare, ast.Call, *_OPERATORS)
        call_of_measure = isinstance(node, ast.Call) and not (
            isinstance(node.func, ast.Name) and node.func.id in _CALLS
        )
        if not isinstance(node, allowed) or call_of_measure:
            raise ValueError(f"{text!r}: only numbers, measures, + - * /, comparisons, min and max are allowed")
    return tree


def evaluate(node: ast.expr, measures: Measures) -> Any:
    """Evaluate a parsed expression; a division by 0 is infinite."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _NUMBERS[node.id] if node.id in _NUMBERS else getattr(measures, node.id)
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](evaluate(node.left, measures), evaluate(node.right, measures))
    if isinstance(node, ast.Compare):
        values = pairwise(evaluate(each, measures) for each in (node.left, *node.comparators))
        return all(_OPERATORS[type(op)](*pair) for op, pair in zip(node.ops, values, strict=True))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return _CALLS[node.func.id](evaluate(each, measures) for each in node.args)


class _Words(dict[str, str]):
    """Measures as words, by their units."""

    def __init__(self, measures: Measures) -> None:
        super().__init__(folder=directory_of(measures.profile, measures.rows))
        self.measures = measures

    def __missing__(self, name: str) -> str:
        if name == "request_power":
            return format_bytes(self.measures.request_power_bytes).replace(" ", "").replace("iB", "")
        if name == "twice_stripes":
            return f"{2 * self.measures.stripe_count:.0f}"
        value = getattr(self.measures, name)
        if name.endswith("_bytes"):
            return format_bytes(value)
        return format_seconds(value) if name.endswith("seconds") else f"{value:,.0f}"


@dataclass(frozen=True)
class Declared:
    """The part of a rule that finds it: files, file systems, mounts, conditions, seconds, and its words."""

    when: tuple[str, ...]
    saves: str
    evidence: str
    fix: tuple[str, ...]
    fix_python: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    filesystems: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ValueError if a part of it cannot be used."""
        for text in (*self.when, self.saves):
            parse(text)
        if unknown := set(self.files) - _FILES.keys():
            raise ValueError(f"files: {', '.join(sorted(unknown))} is not known; known: {', '.join(_FILES)}")

    def look(self, profile: Profile) -> Seen | None:
        if self.filesystems and profile.filesystem not in self.filesystems:
            return None
        rows = profile.counted.copy()
        for name in self.files:
            rows &= _FILES[name](profile)
        for column, patterns in (("path", self.paths), ("mount", self.mounts)):
            if patterns:
                rows &= _fitting(profile, column, patterns)
        if not rows.any():
            return None
        measures = Measures(profile, rows)
        if not all(evaluate(parse(text), measures) for text in self.when):
            return None
        seconds = float(evaluate(parse(self.saves), measures))
        if not seconds >= max(1.0, FELT_SHARE * measures.io_seconds):
            return None
        words = _Words(measures)
        fix = self.fix_python if profile.python and self.fix_python else self.fix
        return Seen(self.evidence.format_map(words), seconds, tuple(line.format_map(words) for line in fix), rows)


def _fitting(profile: Profile, column: str, patterns: tuple[str, ...]) -> Bools:
    text = profile.records.text(column)
    fits = [any(fnmatchcase(name or "", pattern) for pattern in patterns) for name in text.categories]
    return np.array([*fits, False], np.bool_)[text.codes]


_KEYS: Final = frozenset(Declared.__dataclass_fields__)


def declared_rule(name: str, entry: Mapping[str, Any]) -> Rule:
    """Return the rule of an entry with `when`. Raises ValueError or TypeError if it cannot be used."""
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    parts = Declared(**{key: value for key, value in lists.items() if key in _KEYS})
    parts.check()
    rest = {key: value for key, value in lists.items() if key not in _KEYS}
    # No pair of runs before and after such a change is recorded.
    return Rule(name, look=parts.look, **({"tried": False} | rest))


@dataclass(frozen=True)
class Site:
    """A site's notes, by the name of the rule, and its own rules."""

    notes: Mapping[str, str]
    rules: tuple[Rule, ...] = ()


_PLAIN: Final = {"part": "layout", "trigger": "set by this site", "model": "set by this site", "sources": (),
                 "before": "", "after": "", "same_bytes": False}  # fmt: skip


def site_advice() -> Site:
    """Read the site's file, if there is one. Raises FacilityError, which names the file and the key."""
    named = os.environ.get("IOWEATHER_ADVICE")
    path = Path(named) if named else SITE_FILE
    if not named and not path.is_file():
        return Site({})
    try:
        return read_site(path.read_text("utf-8"))
    except OSError as error:
        raise FacilityError(f"{path} cannot be read: {error.strerror}.", hint="IOWEATHER_ADVICE names it.") from None
    except (ValueError, TypeError) as error:
        raise FacilityError(f"{path}: {error}.") from None


@cache
def read_site(text: str) -> Site:
    """Parse a site's notes and rules. Raises ValueError or TypeError."""
    found = tomllib.loads(text)
    if unknown := set(found) - {"note", "rule"}:
        raise ValueError(f"unknown key {', '.join(sorted(unknown))}; known: note, rule")
    notes = {}
    for name, note in found.get("note", {}).items():
        if set(note) != {"text"} or not isinstance(note["text"], str):
            raise ValueError(f"[note.{name}] needs `text`, a sentence, and nothing else")
        notes[name] = note["text"]
    rules = []
    for name, entry in found.get("rule", {}).items():
        if entry.get("dimension") not in get_args(Dimension) or entry.get("part", "layout") not in get_args(Part):
            raise ValueError(f"[rule.{name}] needs `dimension`, one of {', '.join(get_args(Dimension))}")
        try:
            rules.append(declared_rule(name, _PLAIN | entry))
        except (ValueError, TypeError) as error:
            raise ValueError(f"[rule.{name}] {error}") from None
    return Site(notes, tuple(rules))
