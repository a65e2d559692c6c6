"""Rules made of data alone: those of rules.toml with a condition `when`, and those of a site.

Such a rule selects files, and gives its conditions and its seconds as expressions over measures of these files
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

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from fnmatch import translate
from functools import cache, partial
from pathlib import Path
from string import Formatter
from types import CodeType
from typing import Any, Final, get_args

import numpy as np

from ioweather.core.errors import IoweatherError
from ioweather.core.frames import Bools
from ioweather.core.tables import READ_BINS, WRITE_BINS
from ioweather.core.units import GIB, KIB, MIB, format_bytes, format_seconds
from ioweather.job_io.advisor.expected_savings import Dimension, Part, Rule
from ioweather.job_io.advisor.fixes import Pattern, directory_of
from ioweather.job_io.advisor.profile import NOTICEABLE_SHARE, Profile

# The site's file, if IOWEATHER_ADVICE does not name another.
SITE_FILE: Final = Path("/etc/ioweather/advice.toml")

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


def _count_tiny_requests(profile: Profile, rows: Bools) -> Any:
    """Return requests at the file system of up to 10 KiB on these files."""
    mine = np.isin(profile.records.file, np.unique(profile.records.file[rows])) & profile.at_storage
    return sum(profile.ints(name)[mine].sum() for name in (*READ_BINS[:3], *WRITE_BINS[:3]))


# Numbers of the selected files and of the run. Seconds are those by which the run would be shorter without them.
MEASURES: Final[Mapping[str, Callable[[Profile, Bools], Any]]] = {
    "processes": lambda p, rows: p.nprocs,
    "nodes": lambda p, rows: p.nodes,
    "targets": lambda p, rows: p.known_targets,  # of the file system; infinite if unknown
    "target_bytes_per_s": lambda p, rows: p.target_bytes_per_s,
    "run_seconds": lambda p, rows: p.run_seconds or 0.0,
    "io_seconds": lambda p, rows: p.io_seconds or 0.0,
    "between_seconds": lambda p, rows: p.seconds_between_writes(),
    "files": lambda p, rows: p.files_in(rows),
    "small_files": lambda p, rows: p.files_in(p.counted & _FILES["small"](p)),
    "read_bytes": lambda p, rows: p.ints("read_bytes")[rows].sum(),
    "write_bytes": lambda p, rows: p.ints("write_bytes")[rows].sum(),
    "moved_bytes": lambda p, rows: p.moved[rows].sum(),
    "largest_file_bytes": lambda p, rows: p.file_bytes[rows].max(initial=0.0),
    "requests": lambda p, rows: p.operations[rows].sum(),
    "request_bytes": lambda p, rows: p.moved[rows].sum() / max(p.operations[rows].sum(), 1),
    # The power of two next to the mean request, between 1 and 512 MiB.
    "request_power": lambda p, rows: (
        2.0 ** min(max(20, round(math.log2(p.moved[rows].sum() / max(p.operations[rows].sum(), 1) or MIB))), 29)
    ),
    "tiny_requests": _count_tiny_requests,
    "stripe_count": lambda p, rows: p.ints("stripe_count")[rows].max(initial=0),
    "stripe_bytes": lambda p, rows: p.ints("stripe_bytes")[rows].max(initial=0),
    "seconds": lambda p, rows: p.saving(np.where(rows, p.spent, 0.0)),
    "read_seconds": lambda p, rows: p.saving(np.where(rows, p.seconds("read_seconds"), 0.0)),
    "write_seconds": lambda p, rows: p.saving(np.where(rows, p.seconds("write_seconds"), 0.0)),
    "meta_seconds": lambda p, rows: p.saving(np.where(rows, p.seconds("meta_seconds"), 0.0)),
    # Time of the bytes at the highest rate that storage can deliver to this run.
    "needed_seconds": lambda p, rows: p.moved[rows].sum() / p.deliverable_bytes_per_s,
}
_CONSTANTS: Final[Mapping[str, Any]] = {"KiB": KIB, "MiB": MIB, "GiB": GIB, "min": min, "max": max}


@cache
def _compile(text: str) -> CodeType:
    """Compile an expression. Raises ValueError if it uses a name that is neither a measure nor a constant."""
    try:
        code = compile(text, "rule", "eval")
    except SyntaxError:
        raise ValueError(f"{text!r} is not an expression") from None
    # The names of a code object include attributes.
    if unknown := set(code.co_names) - MEASURES.keys() - _CONSTANTS.keys():
        raise ValueError(f"{text!r}: {min(unknown)} is not a measure. Measures: {', '.join(sorted(MEASURES))}")
    if any(isinstance(constant, CodeType) for constant in code.co_consts):
        raise ValueError(f"{text!r}: only numbers, measures and operators are allowed")
    return code


def _evaluate(text: str, profile: Profile, rows: Bools) -> Any:
    """Return the value of an expression over the selected files. A division by 0 is infinite."""
    code = _compile(text)
    measured = {n: np.float64(MEASURES[n](profile, rows)) for n in code.co_names if n in MEASURES}
    return eval(code, {"__builtins__": {}}, {**_CONSTANTS, **measured})


def _fields(entry: Mapping[str, Any]) -> set[str]:
    """Return the expressions in braces of the texts of a rule."""
    texts = (entry["evidence"], *entry["fix"], *entry.get("fix_python", ()))
    return {field for text in texts for _, field, _, _ in Formatter().parse(text) if field} - {"folder"}


def _as_words(text: str, value: float) -> str:
    """Return the value of an expression with the unit that its last word names."""
    if text.endswith("_bytes"):
        return format_bytes(value)
    return format_seconds(value) if text.endswith("seconds") else f"{value:,.0f}"


# Keys of an entry by which a rule finds its pattern; the rest describes the rule.
_REQUIRED: Final = frozenset({"when", "saves", "evidence", "fix"})
_KEYS: Final = _REQUIRED | {"fix_python", "files", "paths", "filesystems", "mounts"}


def _find_declared(entry: Mapping[str, Any], profile: Profile) -> Pattern | None:
    """Return the pattern if its conditions hold and it saves a second, and a noticeable part of the I/O time."""
    if profile.filesystem not in entry.get("filesystems", (profile.filesystem,)):
        return None
    rows = profile.counted.copy()
    for name in entry.get("files", ()):
        rows &= _FILES[name](profile)
    for column in ("path", "mount"):
        if patterns := entry.get(f"{column}s"):
            text, matches = profile.records.text(column), re.compile("|".join(map(translate, patterns))).match
            rows &= np.array([*(matches(name) is not None for name in text.categories), False], np.bool_)[text.codes]
    if not rows.any() or not all(_evaluate(text, profile, rows) for text in entry["when"]):
        return None
    saved = float(_evaluate(entry["saves"], profile, rows))
    if not saved >= max(1.0, NOTICEABLE_SHARE * (profile.io_seconds or 0.0)):
        return None
    words = {text: _as_words(text, float(_evaluate(text, profile, rows))) for text in _fields(entry)}
    words["folder"] = directory_of(profile, rows)
    fix = (entry.get("fix_python") if profile.python else None) or entry["fix"]
    return Pattern(entry["evidence"].format_map(words), saved, tuple(line.format_map(words) for line in fix), rows)


def declared_rule(name: str, entry: Mapping[str, Any]) -> Rule:
    """Return the rule of an entry with `when`. Raises ValueError or TypeError if it cannot be used."""
    if missing := _REQUIRED - entry.keys():
        raise ValueError(f"lacks {', '.join(sorted(missing))}")
    for text in (*entry["when"], entry["saves"], *_fields(entry)):
        _compile(text)
    if unknown := set(entry.get("files", ())) - _FILES.keys():
        raise ValueError(f"files: {', '.join(sorted(unknown))} is unknown. Choose from: {', '.join(_FILES)}")
    for key, possible in (("dimension", get_args(Dimension)), ("part", get_args(Part))):
        if entry.get(key) not in possible:
            raise ValueError(f"needs `{key}`, one of {', '.join(possible)}")
    # No pair of runs before and after such a change is recorded.
    described = {"tried": False, **{key: value for key, value in entry.items() if key not in _KEYS}}
    return Rule(name, find=partial(_find_declared, entry), **described)


_OF_SITE: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("trigger", "model"), "set by this site"),
    "part": "layout",
    "sources": (),
    "before": "",
    "after": "",
    "same_bytes": False,
}


def read_site_advice() -> tuple[dict[str, str], tuple[Rule, ...]]:
    """Return a site's notes, by the name of the rule, and its own rules, if there is such a file.

    Raises IoweatherError, which names the file and the rule.
    """
    named = os.environ.get("IOWEATHER_ADVICE")
    path = Path(named) if named else SITE_FILE
    if not named and not path.is_file():
        return {}, ()
    key = ""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
        if unknown := set(found) - {"note", "rule"}:
            raise ValueError(f"unknown key {', '.join(sorted(unknown))}; valid keys: note, rule")
        rules, notes = [], {}
        for name, note in found.get("note", {}).items():
            if set(note) != {"text"}:
                raise ValueError(f"[note.{name}] needs `text`, a sentence, and no other key")
            notes[name] = str(note["text"])
        for name, entry in found.get("rule", {}).items():
            key = f"[rule.{name}] "
            rules.append(declared_rule(name, {**_OF_SITE, **entry}))
    except OSError as error:
        hint = "IOWEATHER_ADVICE sets this path."
        raise IoweatherError(f"{path} cannot be read: {error.strerror}.", hint=hint, kind="FacilityError") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise IoweatherError(f"{path}: {key}{error}.", kind="FacilityError") from None
    return notes, tuple(rules)
