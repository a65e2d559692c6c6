"""Stable aliases for names that identify people and places: users, projects, programs, hosts, paths.

A name gets its number by when it was first seen in the lake, so that a later report of a grown lake uses the same
alias. A name is replaced wherever it is a word, in tables, labels and sentences; too much is better than too little.
Texts of the papers are left alone, and so are the names of file systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, cast

from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Fact,
    Finding,
    Provenance,
    Reference,
    ResultColumn,
    ResultTable,
)
from ioweather.lake.lake import Snapshot
from ioweather.ui.report.sheets import Sheet

_WORD: Final = re.compile(r"\w[\w.:+@-]*")
_PARTS: Final = re.compile(r"[.:+@-]|[^.:+@-]+")
# An absolute path; 'MiB/s' and 'read/write' are none, because a letter precedes their slash.
_PATH: Final = re.compile(r"(?<![\w/.])/(?:[\w.+@~-]+(?:/[\w.+@~-]+)+|[\w.+@~-]{2,})/?")
_UID: Final = re.compile(r"\buid (\d+)\b")
# The fields of results that contain names; ids, units and numbers stay.
_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    Chart: ("title", "table", "references"),
    Coverage: ("detail",),
    Estimate: ("name", "method"),
    Fact: ("note",),
    Exhibit: ("title", "tables", "charts", "estimates", "findings", "caveats", "coverage", "provenance"),
    Finding: ("text",),
    Provenance: (),
    Reference: ("label",),
    ResultColumn: ("label",),
    ResultTable: ("title", "columns"),
    Sheet: ("title", "sentences", "tiles", "charts", "tables", "actions"),
}
T = TypeVar("T")


@dataclass
class Aliases:
    """`names` maps names in the lake to names in the report. Paths are numbered as they come."""

    names: Mapping[str, str]
    uids: Mapping[int, int] = field(default_factory=dict)
    nodes: re.Pattern[str] | None = None
    _paths: dict[str, str] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """The text with aliases for names, paths, user numbers and compute nodes."""
        spaced = [name for name in self.names if _WORD.fullmatch(name) is None]
        for name in sorted(spaced, key=len, reverse=True):
            text = text.replace(name, self.names[name])
        text = _PATH.sub(lambda m: self._paths.setdefault(m[0], f"path {len(self._paths) + 1}"), text)
        text = _UID.sub(lambda m: f"uid {self.uids.get(int(m[1]), 0)}", text)
        if self.nodes is not None:
            text = self.nodes.sub(lambda m: self._nodes.setdefault(m[0], f"node {len(self._nodes) + 1}"), text)
        return _WORD.sub(lambda m: self._word(m[0]), text)

    def _word(self, word: str) -> str:
        """The longest run of parts that is a name: 'ior' in 'ior-512-9e25', and 'my-code' in 'my-code-16'."""
        if word in self.names:
            return self.names[word]
        parts = _PARTS.findall(word)
        done, start = [], 0
        while start < len(parts):
            ends = range(len(parts), start, -1)
            end = next((end for end in ends if "".join(parts[start:end]) in self.names), None)
            done.append(parts[start] if end is None else self.names["".join(parts[start:end])])
            start = start + 1 if end is None else end
        return "".join(done)

    def hide(self, value: T) -> T:
        """A copy of a text or a result, or of a tuple of them, with aliases in every text that is read by people."""
        shown: Any = value
        if isinstance(shown, str):
            return cast(T, self.text(shown))
        if isinstance(shown, tuple):
            return cast(T, tuple(map(self.hide, shown)))
        changed: dict[str, Any] = {name: self.hide(getattr(shown, name)) for name in _TEXTS[type(shown)]}
        if isinstance(shown, ResultTable):
            changed["rows"] = tuple(tuple(map(self._cell, row, shown.columns)) for row in shown.rows)
        elif isinstance(shown, Coverage):
            changed["excluded"] = {self.text(reason): count for reason, count in shown.excluded.items()}
        elif isinstance(shown, Provenance):
            params = {k: self.text(v) if isinstance(v, str) else v for k, v in shown.params.items()}
            changed = {"lake": "", "params": params}
        return cast(T, replace(shown, **changed))

    def _cell(self, cell: Cell, column: ResultColumn) -> Cell:
        """A cell with aliases: texts, and numbers in a column `uid`."""
        if isinstance(cell, str):
            return self.text(cell)
        return self.uids.get(cell, 0) if column.name == "uid" and isinstance(cell, int) else cell


def aliases_of(snapshot: Snapshot) -> Aliases:
    """Aliases for all names of people and places in the lake."""
    facility = snapshot.facility
    kept = {filesystem.name for filesystem in facility.filesystems} | set(snapshot.filesystems())
    projects = [*_first_seen(snapshot, "jobs", "account"), *(rule.name for rule in facility.projects)]
    uids = sorted({*_first_seen(snapshot, "jobs", "uid"), *_first_seen(snapshot, "applications", "uid")})
    programs = [word for exe in _first_seen(snapshot, "applications", "exe") for word in _words_of(exe)]
    hosts = [
        *_first_seen(snapshot, "responses", "host"),
        *_first_seen(snapshot, "events", "host"),
        *(system.partition(":")[0] for system in _first_seen(snapshot, "series", "system") if ":" in system),
        *_first_seen(snapshot, "series", "component", "component_kind IN ('oss', 'mds')"),
    ]
    names = {
        **_numbered("host", hosts, kept),
        **_numbered("program", [*programs, *_first_seen(snapshot, "jobs", "name")], kept),
        **_numbered("project", projects, kept),
        **_numbered("user", _first_seen(snapshot, "jobs", "user"), kept),
        **{name: "the facility" for name in (facility.name,) if name != "this facility"},
        **_numbered("cluster", [*facility.clusters, *_first_seen(snapshot, "jobs", "cluster")], kept),
    }
    return Aliases(names, {int(uid): number + 1 for number, uid in enumerate(uids)}, _node_pattern(snapshot))


def _first_seen(snapshot: Snapshot, table: str, column: str, where: str = "TRUE") -> list[str]:
    """Distinct values in the order of their first appearance."""
    if not snapshot.pinned[table].uris:
        return []
    time = "submit_ns" if table == "jobs" else "start_ns"
    sql = (
        f'SELECT "{column}" FROM {table} WHERE "{column}" IS NOT NULL AND {where} '
        f'GROUP BY "{column}" ORDER BY min({time}), "{column}"'
    )
    return [row[0] for row in snapshot.query(sql).fetchall() if row[0] != ""]


def _words_of(command: str) -> list[str]:
    """Program, script and files of a command line, without folders; options and numbers identify no person."""
    words = [word.rsplit("/", 1)[-1] for word in command.split() if not word.startswith("-")]
    return [word for word in words if len(word) > 1 and not word.replace(".", "").isdigit()]


def _numbered(word: str, names: Iterable[str], kept: set[str]) -> dict[str, str]:
    distinct = [name for name in dict.fromkeys(names) if name not in kept]
    return {name: f"{word} {number}" for number, name in enumerate(distinct, 1)}


def _node_pattern(snapshot: Snapshot) -> re.Pattern[str] | None:
    """Compute nodes by what comes before their number: there may be thousands."""
    stems = {
        stem
        for nodes in _first_seen(snapshot, "jobs", "nodes")
        for stem in (re.sub(r"\d+$", "", name) for name in nodes.split(",")[:1])
        if stem
    }
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(stems)))})\d+\b") if stems else None
