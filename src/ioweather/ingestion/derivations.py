"""Tables that follow from new rows: what is computed again from which table, and when."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.frames import Frame, Ints
from ioweather.core.logs import Progress, silent
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import DAY_NS, HOUR_NS, names_of
from ioweather.facts.slowdown import RESPONSE_COLUMNS, all_intervals
from ioweather.lake.lake import Lake, new_ingest_id
from ioweather.lake.maintenance import SealedDay, compact, seal_new_days
from ioweather.readers.scan.lists import Entry, ListTally
from ioweather.readers.scan.tally import ScanFacts, original_name, scan_frames

_LOG = logging.getLogger("ioweather.ingest")
# Limit of one search after an ingest. `lake compact --everything` searches all rows without a limit.
_MOST_SECONDS: Final = 900.0
_ENTRIES_AT_ONCE: Final = 50_000
_NUMBERS: Final = names_of("size_bytes capacity_bytes mtime_ns atime_ns ctime_ns uid gid link_count device inode")
_NEW_SCANS: Final = """
SELECT scan_id, start_ns, any_value(source) FROM scan_entries
WHERE scan_id NOT IN (SELECT scan_id FROM scans) GROUP BY ALL ORDER BY ALL
"""
_BINS_ALONE: Final = """
SELECT scan_id, start_ns, any_value(root), any_value(source),
       CAST(sum(count) FILTER (histogram = 'size') AS BIGINT), CAST(sum(bytes) FILTER (histogram = 'size') AS BIGINT),
       CAST(sum(bytes) FILTER (histogram = 'capacity') AS BIGINT),
       CAST(sum(count) FILTER (histogram = 'directory_size') AS BIGINT)
FROM scan_bins WHERE owner_kind = 'all' AND scan_id NOT IN (SELECT scan_id FROM scans) GROUP BY ALL ORDER BY ALL
"""
# Many days go into one commit, which takes longer than a day of one probe.
_COMMIT_ROWS: Final = 200_000
# Of a longer operation only its first and last hours are reduced again.
_LONGEST_NS: Final = 32 * DAY_NS


# Tables whose new rows are searched for events, once after all files are in: a search is too long for each commit.
SEARCHED: Final = frozenset(("series", "responses", "applications", "job_operations"))


def derive_from_rows(lake: Lake, table: str, written: Frame, missing: list[str] | None = None) -> dict[str, int]:
    """Update `response_rollups` after responses were written, also when none is new: an earlier run may have been
    interrupted here. Returns how many rows changed, by table.

    A failure is added to `missing`, and the rows stay; but if the lake cannot be written, that is raised: running the
    same command again completes it."""
    if table != "responses":
        return {}
    try:
        return {"response_rollups": refresh_rollups(lake, written)}
    except (LakeError, OSError):
        raise
    except Exception as error:
        again = "Run `ioweather ingest --again` with these files to repeat the update."
        _note_failure("Updating `response_rollups` failed", error, again, missing)
        return {}


def derive_from_mapped(lake: Lake, table: str) -> dict[str, int]:
    """Make the rows that a user's mapping does not bring, as a reader of ours would. Returns their number by table."""
    if table == "scan_bins":
        return {"scans": sum_bins(lake)}
    return {"scans": tally_entries(lake)} if table == "scan_entries" else {}


def search_new_rows(
    lake: Lake, first_ns: Mapping[str, int], missing: list[str] | None = None, most_seconds: float = _MOST_SECONDS
) -> dict[str, int]:
    """Seal closed days of new samples, and run the searches of these tables from `first_ns` on, the time of the first
    new row, for `most_seconds` each.

    Returns how many rows changed, by table. What fails or is cut short is added to `missing`; all rows stay."""
    made: dict[str, int] = {}
    if "series" in first_ns:
        try:
            seal_new_days(lake, first_ns["series"])
        except Exception as error:
            _note_failure(
                "Sealing closed days failed", error, "Run `ioweather lake compact` to repeat the sealing.", missing
            )
    pinned = lake.pinned()
    if not first_ns or not (pinned["series"].uris or pinned["responses"].uris):
        return made
    # Loaded only where there are samples: an ingest of logs alone takes 0.6 s of processor time less.
    from ioweather.diagnosis.events import find_episodes
    from ioweather.diagnosis.health_query import find_sick_components

    searches: dict[str, Callable[[], int]] = {
        "The search for unhealthy components": lambda: find_sick_components(lake, min(first_ns.values()), most_seconds)
    }
    if "responses" in first_ns:
        searches["The search for slow episodes"] = lambda: find_episodes(lake)
    for name, search in searches.items():
        try:
            made["events"] = made.get("events", 0) + search()
        except Exception as error:
            again = "Run `ioweather lake compact --everything` to repeat the search."
            _note_failure(f"{name} did not finish", error, again, missing)
    return made


def _note_failure(what: str, error: Exception, repeat: str, missing: list[str] | None) -> None:
    """Log what was not computed, and add it to `missing` with the command that repeats it."""
    reason = str(error) if isinstance(error, IoweatherError) else f"{type(error).__name__}: {error}"
    text = f"{what}: {reason.rstrip('.')}. {repeat}"
    _LOG.warning("%s", text, exc_info=not isinstance(error, IoweatherError))
    if missing is not None:
        missing.append(text)


def seal_and_search(
    lake: Lake, *, everything: bool = False, progress: Progress = silent
) -> tuple[Sequence[SealedDay], int]:
    """Seal closed days, the daily task of a lake; returns the sealed days and the number of changed events. New rows
    were searched when they came; with `everything`, all rows are searched again."""
    sealed = compact(lake, everything=everything, progress=progress)
    if not everything:
        return sealed, 0
    progress(0, None, "searching for episodes and unhealthy components")
    missing: list[str] = []
    changed = sum(search_new_rows(lake, dict.fromkeys(SEARCHED, 0), missing, math.inf).values())
    if missing:
        raise IoweatherError(" ".join(missing), kind="SearchIncomplete")
    return sealed, changed


# Rollups of responses: the hours that new responses touch are reduced again, and no others


def refresh_rollups(lake: Lake, added: Frame) -> int:
    """Reduce the hours of these responses again, from all responses in the lake; returns how many rows changed.

    A changed row is a revision, so that running this twice, or by two writers, ends in the same view.
    """
    if not added.rows:
        return 0
    changed = 0
    pieces: list[Frame] = []
    with lake.snapshot() as snapshot:
        periods = [*_join_hours(_touched_hours(added))]
        for low, high in periods:
            # With an hour on either side: what a missed tick waited for may have begun before, or end after.
            near = snapshot.frame("responses", RESPONSE_COLUMNS, period_ns=(low - HOUR_NS, high + HOUR_NS))
            rolled = all_intervals(near)
            start_ns = rolled.ints("start_ns")
            pieces.append(rolled.take((start_ns >= low) & (start_ns < high)))
            if sum(piece.rows for piece in pieces) >= _COMMIT_ROWS or (low, high) == periods[-1]:
                changed += lake.append("response_rollups", concat(pieces), source="rollup")
                pieces = []
    return changed


def _join_hours(hours: Ints) -> Iterator[tuple[int, int]]:
    """Periods of a day or less that cover these hours."""
    for stretch in np.split(hours, np.flatnonzero(np.diff(hours) > 2) + 1):
        for low in range(int(stretch[0]), int(stretch[-1]) + 1, 24):
            yield low * HOUR_NS, min(low + 24, int(stretch[-1]) + 1) * HOUR_NS


def _touched_hours(added: Frame) -> Ints:
    """Hours in which these operations began or went on, and the one before: its last ticks may have waited for them."""
    start, duration = added.ints("start_ns"), added.ints("duration_ns")
    first, last = start // HOUR_NS - 1, (start + duration) // HOUR_NS
    long = (last - first > 1) & (duration <= _LONGEST_NS)
    spans = set(zip(first[long].tolist(), last[long].tolist(), strict=True))
    return np.unique(np.concatenate([first, last, *(np.arange(low, high) for low, high in spans)]))


# Scans whose entries or bins came in alone, by a SELECT: exhibits need their bins, and a row of each scan


def sum_bins(lake: Lake) -> int:
    """Make rows of `scans` for bins that have none; returns how many scans that were."""
    with lake.snapshot() as snapshot:
        found = snapshot.query(_BINS_ALONE).fetchall() if snapshot.pinned["scan_bins"].uris else []
    for scan_id, start_ns, root, source, files, file_bytes, capacity_bytes, directories in found:
        same = {"scan_id": scan_id, "start_ns": start_ns, "root": root, "system": f"mount:{root}", "complete": True}
        sums = {"file_bytes": file_bytes, "capacity_bytes": capacity_bytes, "directory_count": directories}
        counts = {"entry_count": (files or 0) + (directories or 0), "file_count": files or 0}
        lake.append("scans", TABLES["scans"].frame_of([same | sums | counts]), source=source, ingest_id=new_ingest_id())
    return len(found)


def tally_entries(lake: Lake) -> int:
    """Make `scans` and `scan_bins` of entries that have none; returns how many scans that were."""
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["scan_entries"].uris:
            return 0
        found = snapshot.query(_NEW_SCANS).fetchall()
        for scan_id, start_ns, source in found:
            counted = ListTally(start_ns)
            rows = snapshot.query(
                f"SELECT path, escaped, kind, {', '.join(_NUMBERS)} FROM scan_entries "
                "WHERE scan_id = ? AND start_ns = ? ORDER BY path",
                [scan_id, start_ns],
            )
            while batch := rows.fetchmany(_ENTRIES_AT_ONCE):
                counted.add(
                    Entry(
                        original_name(path, bool(escaped)).decode("utf-8", "surrogateescape"), kind or "file", *numbers
                    )
                    for path, escaped, kind, *numbers in batch
                )
            root, tally = counted.finish()
            facts = ScanFacts(scan_id, start_ns, None, root, f"mount:{root}")
            ingest_id = new_ingest_id()
            for table, frame in scan_frames(facts, tally):
                lake.append(table, frame, source=source, ingest_id=ingest_id)
    return len(found)
