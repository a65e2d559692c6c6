"""Names that point to people and places, replaced by stable ones: users, projects, programs, hosts, paths.

A name gets its number by when it was first seen in the lake, so that a later report of a grown lake uses the same
alias. A name is replaced wherever it stands as a word, in tables, labels and sentences; too much is better than too
little. What the papers print is left alone, and so are the names of file systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Provenance,
    ResultColumn,
    ResultTable,
)
from ioweather.store.snapshot import Snapshot

_WORD: Final = re.compile(r"\w[\w.:+@-]*")
_PARTS: Final = re.compile(r"[.:+@-]|[^.:+@-]+")
# An absolute path; 'MiB/s' and 'read/write' are none, for something stands before their slash.
_PATH: Final = re.compile(r"(?<![\w/.])/(?:[\w.+@~-]+(?:/[\w.+@~-]+)+|[\w.+@~-]{2,})/?")
_UID: Final = re.compile(r"\buid (\d+)\b")


@dataclass
class Aliases:
    """`names` maps what stands in the lake to what stands in the report. Paths are numbered as they come."""

    names: Mapping[str, str]
    uids: Mapping[int, int] = field(default_factory=dict)
    nodes: re.Pattern[str] | None = None
    _paths: dict[str, str] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def text(self, text: str) -> str:
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

    def cell(self, cell: Cell, column: ResultColumn) -> Cell:
        if isinstance(cell, str):
            return self.text(cell)
        if column.name == "uid" and isinstance(cell, int):
            return self.uids.get(cell, 0)
        return cell

    def table(self, table: ResultTable) -> ResultTable:
        rows = tuple(tuple(map(self.cell, row, table.columns)) for row in table.rows)
        columns = tuple(replace(column, label=self.text(column.label)) for column in table.columns)
        return replace(table, rows=rows, columns=columns, title=self.text(table.title))

    def chart(self, chart: Chart) -> Chart:
        references = tuple(replace(each, label=self.text(each.label)) for each in chart.references)
        return replace(chart, table=self.table(chart.table), title=self.text(chart.title), references=references)

    def exhibit(self, exhibit: Exhibit) -> Exhibit:
        return replace(
            exhibit,
            title=self.text(exhibit.title),
            tables=tuple(map(self.table, exhibit.tables)),
            charts=tuple(map(self.chart, exhibit.charts)),
            estimates=tuple(self._estimate(estimate) for estimate in exhibit.estimates),
            findings=tuple(replace(finding, text=self.text(finding.text)) for finding in exhibit.findings),
            caveats=tuple(map(self.text, exhibit.caveats)),
            coverage=tuple(self._coverage(coverage) for coverage in exhibit.coverage),
            provenance=self._provenance(exhibit.provenance),
        )

    def _estimate(self, estimate: Estimate) -> Estimate:
        return replace(estimate, name=self.text(estimate.name), method=self.text(estimate.method))

    def _coverage(self, coverage: Coverage) -> Coverage:
        excluded = {self.text(reason): count for reason, count in coverage.excluded.items()}
        return replace(coverage, detail=self.text(coverage.detail), excluded=excluded)

    def _provenance(self, provenance: Provenance) -> Provenance:
        params = {k: self.text(v) if isinstance(v, str) else v for k, v in provenance.params.items()}
        return replace(provenance, lake="", params=params)


def aliases_of(snapshot: Snapshot) -> Aliases:
    """Everything in the lake that names somebody or some place."""
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
        **_lettered("project", projects, kept),
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
    """Program, script and files of a command line, without folders; options and numbers name nobody."""
    words = [word.rsplit("/", 1)[-1] for word in command.split() if not word.startswith("-")]
    return [word for word in words if len(word) > 1 and not word.replace(".", "").isdigit()]


def _numbered(word: str, names: Iterable[str], kept: set[str]) -> dict[str, str]:
    distinct = [name for name in dict.fromkeys(names) if name not in kept]
    return {name: f"{word} {number + 1}" for number, name in enumerate(distinct)}


def _lettered(word: str, names: Iterable[str], kept: set[str]) -> dict[str, str]:
    distinct = [name for name in dict.fromkeys(names) if name not in kept]
    return {name: f"{word} {_letters(number)}" for number, name in enumerate(distinct)}


def _letters(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def _node_pattern(snapshot: Snapshot) -> re.Pattern[str] | None:
    """Compute nodes by what comes before their number: there may be thousands."""
    stems = {
        stem
        for nodes in _first_seen(snapshot, "jobs", "nodes")
        for stem in (re.sub(r"\d+$", "", name) for name in nodes.split(",")[:1])
        if stem
    }
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(stems)))})\d+\b") if stems else None
