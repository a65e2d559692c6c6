"""Inventory of `series`: which groups of rows each day has, and which source an answer reads.

Sealed days are known from their seal; the others are counted. For each file system, kind of component, metric and day
exactly one source is read, so that the same bytes are never counted twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from ioweather.core.contracts import SeriesGroup
from ioweather.core.facility import Facility
from ioweather.core.safe_files import make_directories, write_whole
from ioweather.core.tables import OLDEST_NS, Quality
from ioweather.core.units import DAY_NS, MINUTE_NS, utc_day
from ioweather.lake import layout
from ioweather.lake.database import connection, literal
from ioweather.lake.object_store import fetch, store_of, upload

if TYPE_CHECKING:
    from ioweather.lake.delta_tables import TableFiles

_FLAGS = tuple(flag for flag in Quality if flag)
IS_MINUTE = f"(interval_ns = {MINUTE_NS} AND start_ns % {MINUTE_NS} = 0)"
# Kinds whose `system` names one physical thing; the others may be known by several names.
_SINGLE_KINDS = ("device", "host")
# Below this share of what another resolution covers, a resolution is a sample of it.
_MUCH = 0.9
# Rows that are longer have no place on a grid: the clock was set during the interval, or the sender was off.
LONGEST_NS = 32 * DAY_NS
# No metric is below zero. Lakes from before row checks may contain negative values: they count as missing.
POSSIBLE: Final = "value >= 0"


def seal_file(root: Path, day: str) -> Path:
    """The file with the seal of a day; it may be missing, or of other table files."""
    return layout.seals_dir(root) / f"{day}.json"


def read_seal(root: Path, day: str, uris: Iterable[str]) -> dict[str, Any] | None:
    """The seal of a day, if it is of exactly the files that the day has now."""
    path, names = seal_file(root, day), tuple(uri.rsplit("/", 1)[1] for uri in uris)
    try:
        return _read_seal(path, path.stat().st_mtime_ns, names)
    except (FileNotFoundError, ValueError):
        if store_of(root) is None:
            return None
    fetch(root, [path], again=True)  # another host may have sealed the day
    try:
        return _read_seal(path, path.stat().st_mtime_ns, names)
    except (FileNotFoundError, ValueError):
        return None


@lru_cache(maxsize=400)
def _read_seal(path: Path, _changed_ns: int, files: tuple[str, ...]) -> dict[str, Any]:
    """The seal of these files. Cached: each metric of a year needs all its seals."""
    seal: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if tuple(seal["files"]) != files:
        raise ValueError("of other files")
    return seal


def write_seal(con: duckdb.DuckDBPyConnection, root: Path, sealed: TableFiles, day: str) -> None:
    """Write the groups of a day that is one file, sorted and without duplicates."""
    make_directories(layout.seals_dir(root), root)
    found = count_groups(con, sealed.scan())
    body = {
        "day": day,
        "files": [uri.rsplit("/", 1)[1] for uri in sealed.uris],
        "groups": [{"group": asdict(group), "component_names": names} for group, names in found],
    }
    write_whole(seal_file(root, day), json.dumps(body).encode(), 0o644)
    upload(root, [seal_file(root, day)])


def rows_of_groups(rows: str, groups: Iterable[SeriesGroup]) -> str:
    """SELECT of those rows of `series` that are of these groups; further conditions may follow."""
    minute = {"all": "NULL::BOOLEAN", "minute": "TRUE", "raw": "FALSE"}
    listed = ", ".join(
        f"({', '.join(map(literal, (g.day, g.source, g.system, g.component_kind, g.metric)))}, {minute[g.selection]})"
        for g in groups
    )
    return f"""SELECT r.* FROM ({rows}) r
        JOIN (VALUES {listed or "(NULL, NULL, NULL, NULL, NULL, NULL)"})
        AS g(day, source, system, component_kind, metric, minute) USING (day, source, system, component_kind, metric)
        WHERE (minute IS NULL OR minute = {IS_MINUTE})"""


def count_groups(con: duckdb.DuckDBPyConnection, scan: str) -> list[tuple[SeriesGroup, list[str]]]:
    """Count rows into groups, each with the names of its components; `filesystem` is left as the raw system."""
    # Per component first: counting distinct names in one step over all rows costs several times as much.
    counted = ", ".join(f"count(*) FILTER (quality & {int(flag)} <> 0) AS f{int(flag)}" for flag in _FLAGS)
    placed = f"FILTER (interval_ns <= {LONGEST_NS})"
    rows = con.execute(
        f"""WITH per_component AS (
            SELECT day, source, system, component_kind, metric, {IS_MINUTE} AS minute, component,
                min(interval_ns) AS least, max(interval_ns) AS most, count(*) AS rows,
                count(*) FILTER (start_ns % interval_ns <> 0) AS off_grid, min(start_ns) {placed} AS first_ns,
                max(start_ns + interval_ns) {placed} AS end_ns, sum(interval_ns) AS covered, sum(value) AS total,
                {counted}
            FROM ({scan}) GROUP BY ALL)
        SELECT day, source, system, component_kind, metric, minute, list(component ORDER BY component),
            CASE WHEN min(least) = max(most) THEN min(least) ELSE (sum(covered) // sum(rows))::BIGINT END,
            min(least) = max(most) AND sum(off_grid) = 0 AND max(most) <= {LONGEST_NS}, sum(rows)::BIGINT, count(*),
            coalesce(min(first_ns), 0), coalesce(max(end_ns), 0), sum(covered), coalesce(sum(total), 0.0),
            {", ".join(f"sum(f{int(flag)})::BIGINT" for flag in _FLAGS)}
        FROM per_component GROUP BY day, source, system, component_kind, metric, minute ORDER BY ALL"""
    ).fetchall()
    groups: dict[tuple[str, ...], list[tuple[SeriesGroup, list[str]]]] = {}
    for day, source, system, kind, metric, minute, names, *counts in rows:
        flagged = {str(flag.name).lower(): n for flag, n in zip(_FLAGS, counts[8:], strict=True) if n}
        found = (day, source, system, system, kind, metric, "minute" if minute else "raw", *counts[:8], flagged)
        groups.setdefault((day, source, system, kind, metric), []).append((SeriesGroup(*found), names))
    mixed = [place for place, same in groups.items() if len(same) > 1]
    twice = _find_double_coverage(con, scan, mixed) if mixed else set()
    return [each for place, same in groups.items() for each in (same if place in twice else [_merge_resolutions(same)])]


def _find_double_coverage(
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


def _merge_resolutions(same: list[tuple[SeriesGroup, list[str]]]) -> tuple[SeriesGroup, list[str]]:
    """The minute rows and the raw rows of one thing as one group."""
    if len(same) == 1:
        return replace(same[0][0], selection="all"), same[0][1]
    (first, names), (second, others) = same
    flags = {n: first.flagged.get(n, 0) + second.flagged.get(n, 0) for n in {*first.flagged, *second.flagged}}
    group = replace(
        first if first.rows >= second.rows else second,
        selection="all",
        regular=False,
        components=max(first.components, second.components),
        flagged=flags,
        rows=first.rows + second.rows,
        covered_ns=first.covered_ns + second.covered_ns,
        total=first.total + second.total,
        first_ns=min(first.first_ns, second.first_ns),
        end_ns=max(first.end_ns, second.end_ns),
    )
    return group, sorted({*names, *others})


@lru_cache(maxsize=4)
def _count_unsealed(rows: str) -> list[SeriesGroup]:
    """Groups of unsealed days by their SELECT, which names the files: the parts of a page count them once."""
    with connection() as con:
        return [group for group, _ in count_groups(con, rows)]


def list_groups(root: Path, files: TableFiles, facility: Facility) -> list[SeriesGroup]:
    """Every group of `series` with rows that can be placed in time, sealed days from their seals, the rest counted.
    Rows of before the year 2000 (a clock that was never set) and rows longer than LONGEST_NS are left out."""
    groups: list[SeriesGroup] = []
    unsealed: set[str] = set()
    filesystem_of = cache(facility.filesystem_of)
    for day, uris in files.days().items():
        seal = read_seal(root, day, uris)
        if seal is None:
            unsealed.add(day)
        else:
            stored = (each["group"] for each in seal["groups"])
            groups += [SeriesGroup(**{**each, "filesystem": filesystem_of(each["system"])}) for each in stored]
    if unsealed:
        counted = _count_unsealed(files.scan(unsealed))
        groups += [replace(group, filesystem=filesystem_of(group.system)) for group in counted]
    oldest = utc_day(OLDEST_NS)
    placed = [group for group in groups if group.day >= oldest and group.end_ns > group.first_ns]
    return sorted(placed, key=attrgetter("day", "filesystem", "component_kind", "metric", "source", "system"))


def choose_sources(groups: Sequence[SeriesGroup], facility: Facility, step_ns: int | None = None) -> list[SeriesGroup]:
    """One source and one resolution per (file system, kind, metric, day); for devices and hosts, per system.

    The facility's source_order decides, then the finer interval, then the fuller coverage. Where a source holds raw and
    1-minute rows, the minutes serve every step that is a multiple of a minute, unless raw rows cover much more.
    """
    rank = {name: position for position, name in enumerate(facility.source_order)}
    minutes_do = step_ns is None or step_ns % MINUTE_NS == 0
    rivals: dict[tuple[str, ...], dict[tuple[str, ...], list[SeriesGroup]]] = {}
    for group in groups:
        # One source may know a disk by two names: its host and an address.
        is_single = group.component_kind in _SINGLE_KINDS
        what, raw = (facility.disk_of(group.system), group.system) if is_single else (group.filesystem, "")
        place = rivals.setdefault((what, group.component_kind, group.metric, group.day), {})
        place.setdefault((group.source, group.selection, raw), []).append(group)
    chosen: list[SeriesGroup] = []
    for same in rivals.values():
        chosen += same[min(same, key=lambda key: _rank_source(key, same, rank, minutes_do=minutes_do))]
    return chosen


def _rank_source(
    key: tuple[str, ...],
    same: Mapping[tuple[str, ...], list[SeriesGroup]],
    rank: Mapping[str, int],
    *,
    minutes_do: bool,
) -> tuple[Any, ...]:
    """Sort key of a (source, selection, raw name) of the same thing: the one to read comes first."""
    covered_ns = {each: sum(group.covered_ns for group in groups) for each, groups in same.items()}
    source, selection, raw = key
    fullest_ns = max(ns for (name, _, _), ns in covered_ns.items() if name == source)
    is_poor = minutes_do and covered_ns[key] < _MUCH * fullest_ns
    is_wrong_resolution = selection == ("raw" if minutes_do else "minute")
    interval_ns = min(group.interval_ns for group in same[key])
    return (rank.get(source, len(rank)), is_poor, is_wrong_resolution, interval_ns, -covered_ns[key], source, raw)


def find_overlaps(groups: Collection[SeriesGroup], facility: Facility) -> list[dict[str, Any]]:
    """Where two sources measure the same thing: how far their totals differ, and which one is read."""
    fields = ("filesystem", "component_kind", "metric", "day")
    chosen = {tuple(getattr(g, name) for name in fields): g.source for g in choose_sources([*groups], facility)}
    totals: dict[tuple[str, ...], dict[str, float]] = {}
    for group in groups:
        if group.selection != "raw":
            place = totals.setdefault(tuple(getattr(group, name) for name in fields), {})
            place[group.source] = place.get(group.source, 0.0) + group.total
    found = []
    for key, by_source in sorted(totals.items()):
        if len(by_source) > 1:
            low, high = min(by_source.values()), max(by_source.values())
            named: dict[str, Any] = dict(zip(fields, key, strict=True))
            ratio = (high - low) / high if high else 0.0
            found.append({**named, "sources": sorted(by_source), "read": chosen[key], "disagreement_ratio": ratio})
    return found


def summarise_series(groups: Iterable[SeriesGroup]) -> list[tuple[str, str, str, int, float, int, int, int]]:
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
