"""Inventory of `series`: which groups of rows each day has, their sums, and which source an answer reads.

Sealed days are known from their seal; the others are counted. For each file system, kind of component, metric and day
exactly one source is read, so that the same bytes are never counted twice.

Sums of sealed days are in small Parquet files next to the seal: over all components by step, and per component by hour.
Only groups on a regular grid have sums. A row is like one of `series`, with the sum of `n` values of `interval_ns`.
Other steps and shares of coverage are computed from these rows. The name of a file says for which files of `series` it
was made, and ends with its own digest: a missing, damaged or outdated file is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import duckdb

from ioweather.core.clock import utc_day
from ioweather.core.contracts import SeriesGroup
from ioweather.core.facility import Facility, without_domain
from ioweather.core.safe_files import sync_to_disk
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import OLDEST_NS
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.lake import layout
from ioweather.lake.database import literal
from ioweather.lake.table_files import TableFiles, content_digest, damaged_files

_FLAGS = tuple(flag for flag in Quality if flag)
IS_MINUTE = f"(interval_ns = {MINUTE_NS} AND start_ns % {MINUTE_NS} = 0)"
# Kinds whose `system` names one physical thing; the others may be known by several names.
_SINGLE_KINDS = ("device", "host")
# Below this share of what another resolution covers, a resolution is a sample of it.
_MUCH = 0.9
_SEALS_KEPT = 400
# Rows that are longer have no place on a grid: the clock was set during the interval, or the sender was off.
LONGEST_NS = 32 * DAY_NS
_PLACED = f"FILTER (interval_ns <= {LONGEST_NS})"
_ONE_RESOLUTION = {"all": "NULL::BOOLEAN", "minute": "TRUE", "raw": "FALSE"}
_OLDEST_DAY = utc_day(OLDEST_NS)
_Place: TypeAlias = "dict[tuple[str, str], list[SeriesGroup]]"  # (source, selection) -> groups of one thing
Kind: TypeAlias = Literal["steps", "hours"]
# No metric is below zero. Lakes from before row checks may contain negative values: they count as missing.
POSSIBLE: Final = "value >= 0"


def seal_file(root: Path, day: str) -> Path:
    return layout.seals_dir(root) / f"{day}.json"


def seal_of(root: Path, day: str, uris: Iterable[str]) -> dict[str, Any] | None:
    """The seal of a day, if it is of exactly the files that the day has now."""
    try:
        return _read_seal(seal_file(root, day), tuple(uri.rsplit("/", 1)[1] for uri in uris))
    except (FileNotFoundError, ValueError):
        return None


@lru_cache(maxsize=_SEALS_KEPT)
def _read_seal(path: Path, files: tuple[str, ...]) -> dict[str, Any]:
    """The seal of these files, which never changes. Cached: each metric of a year needs all its seals."""
    seal: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if tuple(seal["files"]) != files:
        raise ValueError("of other files")
    return seal


def group_rows(con: duckdb.DuckDBPyConnection, scan: str) -> list[SeriesGroup]:
    """Count rows into groups; `filesystem` is left as the raw system."""
    # Per component first: counting distinct names in one step over all rows costs several times as much.
    flags = [f"f{int(flag)}" for flag in _FLAGS]
    count_flags = ", ".join(
        f"count(*) FILTER (quality & {int(f)} <> 0) AS {n}" for f, n in zip(_FLAGS, flags, strict=True)
    )
    counted = con.execute(
        f"""WITH per_component AS (
            SELECT day, source, system, component_kind, metric, {IS_MINUTE} AS minute, component,
                min(interval_ns) AS least, max(interval_ns) AS most, count(*) AS rows,
                count(*) FILTER (start_ns % interval_ns <> 0) AS off_grid, min(start_ns) {_PLACED} AS first_ns,
                max(start_ns + interval_ns) {_PLACED} AS end_ns, sum(interval_ns) AS covered, sum(value) AS total,
                {count_flags}
            FROM ({scan}) GROUP BY ALL)
        SELECT day, source, system, component_kind, metric, minute,
            CASE WHEN min(least) = max(most) THEN min(least) ELSE (sum(covered) // sum(rows))::BIGINT END,
            min(least) = max(most) AND sum(off_grid) = 0 AND max(most) <= {LONGEST_NS}, sum(rows)::BIGINT, count(*),
            coalesce(min(first_ns), 0), coalesce(max(end_ns), 0),
            sum(covered), sum(total), {", ".join(f"sum({n})::BIGINT" for n in flags)}
        FROM per_component GROUP BY day, source, system, component_kind, metric, minute ORDER BY ALL"""
    ).fetchall()
    groups: dict[tuple[str, ...], list[SeriesGroup]] = {}
    for row in counted:
        day, source, system, kind, metric, minute = row[:6]
        flagged = {str(flag.name).lower(): n for flag, n in zip(_FLAGS, row[14:], strict=True) if n}
        counts = (*row[6:13], row[13] or 0.0, flagged)
        group = SeriesGroup(day, source, system, system, kind, metric, "minute" if minute else "raw", *counts)
        groups.setdefault((day, source, system, kind, metric), []).append(group)
    mixed = [place for place, same in groups.items() if len(same) > 1]
    twice = _covered_twice(con, scan, mixed) if mixed else set()
    return [group for place, same in groups.items() for group in (same if place in twice else [_one_resolution(same)])]


def numbered_rows(groups: Sequence[SeriesGroup], scan: str) -> str:
    """The rows of these groups of a day, each with the number of its group and the group's own times: one pass over a
    file, however many groups it holds."""
    listed = ", ".join(
        f"({number}, {literal(group.source)}, {literal(group.system)}, {literal(group.component_kind)}, "
        f"{literal(group.metric)}, {_ONE_RESOLUTION[group.selection]}, {group.first_ns}, {group.interval_ns}, "
        f"{group.regular})"
        for number, group in enumerate(groups)
    )
    return f"""SELECT rows.*, number, group_first_ns, group_interval_ns, group_regular FROM ({scan}) AS rows
        JOIN (VALUES {listed}) AS groups(number, source, system, component_kind, metric, minute, group_first_ns,
            group_interval_ns, group_regular) USING (source, system, component_kind, metric)
        WHERE minute IS NULL OR minute = {IS_MINUTE}"""


def _covered_twice(
    con: duckdb.DuckDBPyConnection, scan: str, places: Sequence[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    """Places where minute rows and raw rows cover the same time, for more than a minute of some component."""
    listed = ", ".join(f"({', '.join(map(literal, place))})" for place in places)
    key = "day, source, system, component_kind, metric"
    rows = con.execute(
        f"""WITH rows AS (
            SELECT {key}, component, {IS_MINUTE} AS minute, start_ns, start_ns + interval_ns AS end_ns
            FROM ({scan}) WHERE ({key}) IN ({listed})),
        others AS (
            SELECT *, CASE WHEN minute THEN max(end_ns) FILTER (NOT minute) OVER before
                ELSE max(end_ns) FILTER (minute) OVER before END AS other_end_ns
            FROM rows WINDOW before AS (PARTITION BY {key}, component ORDER BY start_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
        SELECT {key} FROM others WHERE other_end_ns > start_ns GROUP BY {key}, component
        HAVING sum(least(end_ns, other_end_ns) - start_ns) > {MINUTE_NS}"""
    ).fetchall()
    return set(rows)


def _one_resolution(groups: list[SeriesGroup]) -> SeriesGroup:
    if len(groups) == 1:
        return replace(groups[0], selection="all")
    first, second = groups
    components = max(first.components, second.components)
    larger = max(groups, key=lambda group: group.rows)
    flags = {
        name: first.flagged.get(name, 0) + second.flagged.get(name, 0) for name in {*first.flagged, *second.flagged}
    }
    both: dict[str, Any] = {n: getattr(first, n) + getattr(second, n) for n in ("rows", "covered_ns", "total")}
    both |= {"first_ns": min(first.first_ns, second.first_ns), "end_ns": max(first.end_ns, second.end_ns)}
    return replace(larger, selection="all", regular=False, components=components, flagged=flags, **both)


def inventory(
    root: Path, con: Callable[[], duckdb.DuckDBPyConnection], files: TableFiles, facility: Facility
) -> list[SeriesGroup]:
    """Every group of `series` with rows that can be placed in time, sealed days from their seals, the rest counted.
    Rows of before the year 2000 (a clock that was never set) and rows longer than LONGEST_NS are left out."""
    groups: list[SeriesGroup] = []
    unsealed: set[str] = set()
    for day, uris in files.days().items():
        seal = seal_of(root, day, uris)
        if seal is None:
            unsealed.add(day)
        else:
            groups += [SeriesGroup(**group["group"]) for group in seal["groups"]]
    if unsealed:
        groups += group_rows(con(), files.scan(unsealed))
    names = {system: facility.filesystem_of(system) for system in {group.system for group in groups}}
    return sorted(
        (
            replace(group, filesystem=names[group.system])
            for group in groups
            if group.day >= _OLDEST_DAY and group.end_ns > group.first_ns
        ),
        key=lambda g: (g.day, g.filesystem, g.component_kind, g.metric, g.source, g.system),
    )


def choose_sources(groups: Sequence[SeriesGroup], facility: Facility, step_ns: int | None = None) -> list[SeriesGroup]:
    """One source and one resolution per (file system, kind, metric, day); for devices and hosts, per system.

    The facility's source_order decides, then the finer interval, then the fuller coverage. Where a source holds raw and
    1-minute rows, the minutes serve every step that is a multiple of a minute, unless raw rows cover much more.
    """
    rank = {name: position for position, name in enumerate(facility.source_order)}
    minutes_do = step_ns is None or step_ns % MINUTE_NS == 0
    rivals: dict[tuple[str, ...], _Place] = {}
    for group in groups:
        what = without_domain(group.system) if group.component_kind in _SINGLE_KINDS else group.filesystem
        place = rivals.setdefault((what, group.component_kind, group.metric, group.day), {})
        place.setdefault((group.source, group.selection), []).append(group)

    def covered(members: Sequence[SeriesGroup]) -> int:
        return sum(group.covered_ns for group in members)

    def preference(place: _Place, source: str, selection: str) -> tuple[Any, ...]:
        members = place[source, selection]
        fullest = max(covered(others) for (name, _), others in place.items() if name == source)
        poor = minutes_do and covered(members) < _MUCH * fullest
        wrong_resolution = (selection == "raw") if minutes_do else (selection == "minute")
        interval = min(group.interval_ns for group in members)
        return (rank.get(source, len(rank)), poor, wrong_resolution, interval, -covered(members), source)

    return [group for place in rivals.values() for group in place[min(place, key=lambda key: preference(place, *key))]]


def overlaps(groups: Sequence[SeriesGroup], facility: Facility) -> list[dict[str, Any]]:
    """Where two sources measure the same thing: how far their totals differ, and which one is read."""
    chosen = {(g.filesystem, g.component_kind, g.metric, g.day): g.source for g in choose_sources(groups, facility)}
    totals: dict[tuple[str, str, str, str], dict[str, float]] = {}
    for group in groups:
        if group.selection != "raw":
            place = totals.setdefault((group.filesystem, group.component_kind, group.metric, group.day), {})
            place[group.source] = place.get(group.source, 0.0) + group.total
    found = []
    for key, by_source in sorted(totals.items()):
        if len(by_source) > 1:
            low, high = min(by_source.values()), max(by_source.values())
            named = dict(zip(("filesystem", "component_kind", "metric", "day"), key, strict=True))
            ratio = (high - low) / high if high else 0.0
            found.append({**named, "sources": sorted(by_source), "read": chosen[key], "disagreement_ratio": ratio})
    return found


def write_totals(con: duckdb.DuckDBPyConnection, root: Path, day: str, uris: Iterable[str], rows: str) -> None:
    """Write the sums of a day. `rows` are its `numbered_rows`."""
    group = "day, source, system, component_kind, metric"
    for stem, component, start, condition in (
        (_stem(day, "steps", uris), "NULL::VARCHAR", "start_ns", "TRUE"),
        (_stem(day, "hours", uris), "component", f"start_ns - start_ns % {HOUR_NS}", f"{HOUR_NS} % interval_ns = 0"),
    ):
        draft = layout.seals_dir(root) / f".{stem}.{os.getpid()}"
        try:
            con.execute(
                f"""COPY (SELECT {group}, {component} AS component, {start} AS start_ns, interval_ns,
                    sum(value) AS value, count(*) AS n, 0 AS quality
                    FROM ({rows}) WHERE group_regular AND {POSSIBLE} AND {condition} GROUP BY ALL ORDER BY metric, 7)
                TO {literal(draft)} (FORMAT parquet, COMPRESSION zstd)"""
            )
            sync_to_disk(draft, 0o444)
            draft.rename(draft.with_name(f"{stem}-{content_digest(draft)}.zstd.parquet"))
        finally:
            draft.unlink(missing_ok=True)


def find_totals(root: Path, kind: Kind, days: Mapping[str, Iterable[str]]) -> dict[str, Path]:
    """The file with the sums of each of these days, given with their files of `series`, where there is one."""
    wanted = {_stem(day, kind, uris): day for day, uris in days.items()}
    folder = layout.seals_dir(root)
    paths = [*folder.glob(f"*.{kind}-*.zstd.parquet")] if wanted and folder.is_dir() else []
    found = {day: path for path in paths if (day := wanted.get(path.name.rpartition("-")[0]))}
    return {day: path for day, path in found.items() if not damaged_files([path])}


def _stem(day: str, kind: Kind, uris: Iterable[str]) -> str:
    names = " ".join(sorted(uri.rsplit("/", 1)[-1] for uri in uris))
    return f"{day}.{kind}-{hashlib.blake2b(names.encode(), digest_size=8).hexdigest()}"


def held_series(groups: Iterable[SeriesGroup]) -> list[tuple[str, str, str, int, float, int, int, int]]:
    """What the lake has of each file system, kind and source: file system, kind, source, components, the finest step
    in seconds, first and last time in ns, rows."""
    found: dict[tuple[str, str, str], list[SeriesGroup]] = {}
    for group in groups:
        found.setdefault((group.filesystem, group.component_kind, group.source), []).append(group)
    return [
        (
            *key,
            max(each.components for each in mine),
            min(each.interval_ns for each in mine) / 1e9,
            min(each.first_ns for each in mine),
            max(each.end_ns for each in mine),
            sum(each.rows for each in mine),
        )
        for key, mine in found.items()
    ]
