"""Checks of an installation: what works, what is missing, and how to fix it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from ioweather.agent.command import Check, check_agent, check_programs, check_python, check_sources
from ioweather.agent.status import find_problems, remote_agents
from ioweather.core.errors import IoweatherError
from ioweather.core.facility import load_facility
from ioweather.core.safe_files import default_lake_dir, default_spool_dir
from ioweather.core.units import DAY_NS, GIB, NS, format_bytes, format_seconds, format_time_ns, now_ns, utc_day
from ioweather.ingestion.queue import refused_dir, waiting
from ioweather.lake import layout
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import last_check
from ioweather.ui.facility_draft import systems_of

# A status is so long on its way, at most: from an agent on a busy machine, by a process of its own.
_PUSH_SECONDS = 10.0
_CHECK_EVERY_NS = 90 * DAY_NS
# The writer takes what was pushed every few seconds.
_QUEUE_SECONDS = 300.0
_NTP: Final = "synchronise both with NTP: chronyc tracking"
_COMPARE: Final = "ioweather lake check"
_REASONS: Final = "ioweather lake quarantine"
_SUM: Final = "SELECT coalesce(sum({}_count), 0) FROM ingests"


def examine(lake_dir: str | None = None, *spools: Path) -> list[Check]:
    """Every check, in order; a check that itself fails is a problem with its error."""
    root = Path(lake_dir) if lake_dir else default_lake_dir()
    places = spools or (default_spool_dir(),)
    has_lake = layout.is_lake(root)
    steps: list[Callable[[], Iterable[Check]]] = [
        check_python,
        check_programs,
        lambda: check_sources(load_facility(layout.facility_file(root))),
        *(partial(check_agent, place) for place in places),
    ]
    if has_lake:
        steps += [lambda: _lake(root), lambda: _contents(open_lake(root)), lambda: _future_rows(open_lake(root))]
        steps += [lambda: _remote(root), lambda: _queue(root)]
    found: list[Check] = []
    for step in steps:
        try:
            found += step()
        except (IoweatherError, OSError) as error:
            found.append(Check("check failed", "problem", str(error)))
    if not has_lake:
        found.append(Check("lake", "note", f"none at {root}", "ioweather ingest FILES, or ioweather demo"))
    return found


def _verdict(name: str, trouble: str, fix: str, fine: str, state: Literal["note", "problem"] = "problem") -> Check:
    """The trouble and what to do about it; where there is none, what is fine."""
    return Check(name, state, trouble, fix) if trouble else Check(name, "ok", fine)


def _remote(root: Path) -> Iterator[Check]:
    """Agents that push to this lake's server."""
    moment = now_ns()
    agents = remote_agents(root, moment)
    for agent in agents:
        ago, state = format_seconds((moment - agent.heard_ns) / NS), agent.life(moment)
        if state == "silent":
            there = "on that host: systemctl status ioweather-agent"
            yield Check("agent", "problem", f"silent for {ago} on {agent.host}", there)
        elif state == "stopped":
            yield Check("agent", "note", f"stopped {ago} ago on {agent.host}", "start it again: ioweather agent run")
        for trouble in find_problems(agent).values():
            yield Check("agent", "problem", f"{agent.host}: {trouble}", f"reported {ago} ago; run doctor there")
        apart = (agent.written_ns - agent.heard_ns) / NS
        if abs(apart) > _PUSH_SECONDS:
            yield Check("clocks", "problem", f"{agent.host} is {_offset(apart)} this host", _NTP)
    if agents:
        running = sum(agent.life(moment) == "running" for agent in agents)
        yield Check("agents", "ok", f"{running} of {len(agents)} agents on other hosts are running")


def _offset(seconds: float) -> str:
    return f"{format_seconds(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'}"


def _queue(root: Path) -> Iterator[Check]:
    """What other hosts pushed and is not in the lake yet."""
    found = waiting(root)
    if found.files:
        age = found.age_seconds(now_ns())
        text = f"{found.files:,} pushed files are queued ({format_bytes(found.bytes)}), the oldest for "
        text += format_seconds(age)
        if found.trouble:
            fix = "check space and permissions of the lake; the server retries"
            yield Check("queue", "problem", f"{text}; the last write failed: {found.trouble}", fix)
        else:
            late = text if age >= _QUEUE_SECONDS else ""
            yield _verdict("queue", late, "start the server (ioweather serve), or check its log", text)
    refused = sum(1 for path in refused_dir(root).rglob("*") if path.is_file())
    if refused:
        fix = f"ioweather lake quarantine lists the reasons; the files are in {refused_dir(root)}"
        yield Check("queue", "problem", f"{refused:,} pushed files could not be written to the lake", fix)


def _lake(root: Path) -> Iterator[Check]:
    """The directory of the lake: space, its files."""
    free = shutil.disk_usage(root).free
    yield Check("lake", "ok", f"{root}, {open_lake(root).facility.name}")
    trouble = f"only {format_bytes(free)} free" if free <= GIB else ""
    yield _verdict("space", trouble, "ioweather lake retention, or a larger disk", f"{format_bytes(free)} free")
    if not os.access(root, os.W_OK):
        yield Check("commits", "note", "only you can read this lake")
        return
    checked = last_check(root)
    if checked is not None and checked["damaged"]:
        text = f"{len(checked['damaged'])} were damaged on {utc_day(checked['checked_ns'])}"
        yield Check("table files", "problem", text, _COMPARE)
        return
    old = "never checked against their digests" if checked is None else ""
    if checked is not None and now_ns() - checked["checked_ns"] > _CHECK_EVERY_NS:
        old = f"last checked against their digests on {utc_day(checked['checked_ns'])}"
    intact = f"all were intact on {utc_day(checked['checked_ns'])}" if checked is not None else ""
    yield _verdict("table files", old, _COMPARE, intact, "note")


# A dump of accounting without Submit takes the start in its place, and so brings every job that had to wait twice.
_TWICE: Final = """SELECT count(*) FROM (SELECT 1 FROM jobs WHERE step = '' AND start_ns IS NOT NULL
    GROUP BY cluster, job_id, start_ns HAVING count(DISTINCT submit_ns) > 1 AND max(submit_ns) = start_ns)"""
_TWICE_FIX: Final = "remove the dump without Submit: ioweather lake forget FILE"
_FLAGGED_FIX: Final = 'ioweather sql "SELECT path, message FROM ingests WHERE flagged_count > 0"'
# Counts of the lake, and what to report where one is not zero.
_COUNTED: Final = {
    "SELECT count(*) FROM quarantine": Check(
        "quarantine", "note", "{:,} files were rejected or only partly read", _REASONS
    ),
    _TWICE: Check("accounting", "problem", "{:,} jobs are stored twice: with and without a submit time", _TWICE_FIX),
    _SUM.format("refused"): Check("rows", "note", "{:,} rows had invalid values and were rejected", _REASONS),
    _SUM.format("flagged"): Check("rows", "note", "{:,} rows were ingested and flagged", _FLAGGED_FIX),
}


def _contents(lake: Lake) -> Iterator[Check]:
    """Rows of the lake: files refused, jobs that are in twice, closed days in many files, names without a mapping."""
    yesterday = utc_day(now_ns() - DAY_NS)
    with lake.snapshot() as snapshot:
        for query, check in _COUNTED.items():
            if count := snapshot.scalar(query):
                yield replace(check, found=check.found.format(count))
        every = [each for files in snapshot.pinned.values() for each in files.days().items()]
        days = {day for day, uris in every if day <= yesterday and len(uris) > 1}
        systems = systems_of(snapshot)
        unmapped = sorted(name for name in systems if not snapshot.facility.is_mapped(name))
    # Many small files make every answer slow.
    trouble = f"{len(days)} closed days have several files each" if days else ""
    yield _verdict("sealing", trouble, "ioweather lake compact", "every closed day is one file", "note")
    shown = ", ".join(unmapped[:4]) + (", ..." if len(unmapped) > 4 else "")
    trouble = f"{len(unmapped)} not mapped to a file system: {shown}" if unmapped else ""
    fix = "ioweather facility check, then edit facility.toml"
    yield _verdict("names", trouble, fix, "every name in the data is mapped", "note")


def _future_rows(lake: Lake) -> Iterator[Check]:
    """Rows from the future are the sure sign of a clock that is wrong."""
    now = now_ns()
    wrong = []
    with lake.snapshot() as snapshot:
        for table in (table for table in ("series", "responses") if snapshot.pinned[table].uris):
            last = snapshot.scalar(f"SELECT max(start_ns) FROM {table}")
            if isinstance(last, int) and last > now + 60 * NS:
                text = f"`{table}` reaches {_offset((last - now) / NS)}, to {format_time_ns(last)}".replace(" of,", ",")
                wrong.append(Check("clocks", "problem", text, "check the host clocks and --zone"))
    yield from wrong or [Check("clocks", "ok", "no row in the lake is in the future")]
