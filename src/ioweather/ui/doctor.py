"""Checks of an installation: what works, what is missing, and how to fix it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

from ioweather.agent.doctor import Check, State, check_agent, check_loads, check_programs, check_python, check_sources
from ioweather.agent.status import STATUS_FILE, find_problems, read_status, remote_agents
from ioweather.core.clock import now_ns, utc_day
from ioweather.core.errors import DataUnavailable, IoweatherError
from ioweather.core.facility import load_facility
from ioweather.core.safe_files import default_lake_dir, default_spool_dir
from ioweather.core.units import DAY_NS, GIB, NS, format_bytes, format_seconds, format_time_ns
from ioweather.ingestion.queue import refused_dir, waiting
from ioweather.lake import layout
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import last_check
from ioweather.ui.facility_draft import systems_of

# Samples of one second are not ordered more finely than this.
_CLOCKS_APART_SECONDS = 2.0
# A status is so long on its way, at most: from an agent on a busy machine, by a process of its own.
_PUSH_SECONDS = 10.0
_RECENT_DAYS = 7
_CHECK_EVERY_NS = 90 * DAY_NS
# The writer takes what was pushed every few seconds.
_QUEUE_SECONDS = 300.0
_NTP: Final = "set both by NTP: chronyc tracking"


def examine(lake_dir: str | None = None, *spools: Path) -> list[Check]:
    """Every check, in order; a check that itself fails is a problem with its error."""
    root = Path(lake_dir) if lake_dir else default_lake_dir()
    places = spools or (default_spool_dir(),)
    checks: list[Callable[[], Iterator[Check]]] = [check_python, _packages, check_programs, lambda: _collectable(root)]
    checks += [partial(check_agent, place) for place in places]
    checks.append(lambda: _agents_clocks(places))
    if layout.is_lake(root):
        checks += [lambda: _lake(root), lambda: _sealing(open_lake(root)), lambda: _names(open_lake(root))]
        checks.append(lambda: _twice(open_lake(root)))
        checks += [lambda: _clocks(open_lake(root)), lambda: _rows(open_lake(root))]
        checks += [lambda: _elsewhere(root), lambda: _pushed(root), lambda: _probe_loads(root, places)]
    found: list[Check] = []
    for check in checks:
        try:
            found += check()
        except (IoweatherError, OSError) as error:
            found.append(Check("check failed", "problem", str(error)))
    if not layout.is_lake(root):
        found.append(Check("lake", "note", f"none at {root}", "ioweather ingest FILES, or ioweather demo"))
    return found


def _packages() -> Iterator[Check]:
    """Run-time dependencies, and the extras that add a source or a curve."""
    missing, extras = [], []
    for requirement in requires("ioweather") or []:
        name = requirement.split(";")[0].split("[")[0]
        for mark in "<>=!~ ":
            name = name.split(mark)[0]
        extra = "extra ==" in requirement
        try:
            version(name)
        except PackageNotFoundError:
            if not extra:
                missing.append(name)
            elif not re.search(r"extra == .(dev|docs).", requirement):
                extras.append(name)
    if missing:
        yield Check("packages", "problem", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    else:
        yield Check("packages", "ok", "all required packages are installed")
    if extras:
        yield Check("extras", "note", f"not installed: {', '.join(sorted(set(extras)))}", "pip install NAME, if wanted")


def _collectable(root: Path) -> Iterator[Check]:
    yield from check_sources(load_facility(layout.facility_file(root)))


def _elsewhere(root: Path) -> Iterator[Check]:
    """Agents that push to this lake's server."""
    moment = now_ns()
    agents = remote_agents(root, moment)
    for agent in agents:
        ago, state = format_seconds((moment - agent.heard_ns) / NS), agent.state(moment)
        if state == "silent":
            yield Check(
                "agent", "problem", f"silent for {ago} on {agent.host}", "there: systemctl status ioweather-agent"
            )
        elif state == "stopped":
            yield Check("agent", "note", f"stopped {ago} ago on {agent.host}", "start it again: ioweather agent run")
        if agent.status is None:
            continue
        for trouble in find_problems(agent.status).values():
            yield Check("agent", "problem", f"{agent.host}: {trouble}", f"told {ago} ago; there: ioweather doctor")
        apart = (agent.status.written_ns - agent.status.heard_ns) / NS
        if abs(apart) > _PUSH_SECONDS:
            way = "ahead of" if apart > 0 else "behind"
            yield Check("clocks", "problem", f"{agent.host} is {format_seconds(abs(apart))} {way} this host", _NTP)
    if agents:
        heard = sum(agent.state(moment) == "running" for agent in agents)
        yield Check("agents", "ok", f"{heard} of {len(agents)} of other hosts are heard of")


def _probe_loads(root: Path, spools: Sequence[Path]) -> Iterator[Check]:
    """What the probes of all agents together do to each file system."""
    statuses = []
    for spool in spools:
        with suppress(IoweatherError):
            statuses.append(read_status(spool))
    remote = [agent.status for agent in remote_agents(root, now_ns(), statuses) if agent.status is not None]
    running = [status for status in [*statuses, *remote] if not status.is_stale(now_ns())]
    yield from check_loads(running, open_lake(root).facility)


def _pushed(root: Path) -> Iterator[Check]:
    """What other hosts pushed and is not in the lake yet."""
    found = waiting(root)
    age = found.age_seconds(now_ns())
    if found.files:
        text = f"{found.files:,} files that were pushed wait ({format_bytes(found.bytes)}), the oldest for "
        text += format_seconds(age)
        if found.trouble:
            fix = "check space and permissions of the lake; the server tries again"
            yield Check("queue", "problem", f"{text}; the last try to write them failed: {found.trouble}", fix)
        elif age < _QUEUE_SECONDS:
            yield Check("queue", "ok", text)
        else:
            yield Check("queue", "problem", text, "start the server (ioweather serve), or see its log")
    refused = sum(1 for path in refused_dir(root).rglob("*") if path.is_file())
    if refused:
        fix = f"ioweather lake quarantine says why; they are in {refused_dir(root)}"
        yield Check("queue", "problem", f"{refused:,} pushed files could not be written to the lake", fix)


def _lake(root: Path) -> Iterator[Check]:
    lake = open_lake(root)
    free = shutil.disk_usage(root).free
    yield Check("lake", "ok", f"{root}, {lake.facility.name}")
    yield (
        Check("space", "ok", f"{format_bytes(free)} free")
        if free > GIB
        else Check("space", "problem", f"only {format_bytes(free)} free", "ioweather lake retention, or a larger disk")
    )
    if not os.access(root, os.W_OK):
        yield Check("commits", "note", "this lake may only be read by you")
        return
    yield _exclusive(root)
    yield _file_server_clock(root)
    with lake.snapshot() as snapshot:
        quarantined = snapshot.scalar("SELECT count(*) FROM quarantine")
    if quarantined:
        yield Check(
            "quarantine", "note", f"{quarantined} files were refused or read in part", "ioweather lake quarantine"
        )
    yield _last_check(root)


def _last_check(root: Path) -> Check:
    found = last_check(root)
    if found is None:
        return Check("table files", "note", "never compared with their digests", "ioweather lake check")
    when = f"on {utc_day(found.checked_ns)}"
    if found.damaged:
        return Check("table files", "problem", f"{len(found.damaged)} were damaged {when}", "ioweather lake check")
    if now_ns() - found.checked_ns > _CHECK_EVERY_NS:
        return Check("table files", "note", f"last compared with their digests {when}", "ioweather lake check")
    return Check("table files", "ok", f"all were intact {when}")


def _rows(lake: Lake) -> Iterator[Check]:
    """Rows that were refused or flagged when they came."""
    with lake.snapshot() as snapshot:
        refused, flagged = (
            snapshot.scalar(f"SELECT coalesce(sum({name}), 0) FROM ingests")
            for name in ("refused_count", "flagged_count")
        )
    if refused:
        yield Check("rows", "note", f"{refused:,} were left out, because they cannot be", "ioweather lake quarantine")
    if flagged:
        fix = 'ioweather sql "SELECT path, message FROM ingests WHERE flagged_count > 0"'
        yield Check("rows", "note", f"{flagged:,} were kept and flagged", fix)
    if not refused:
        yield Check("rows", "ok", "none is outside of what its table allows")


def _exclusive(root: Path) -> Check:
    """Racing writers need a file system on which a name can be made by one of them alone."""
    first, second = (f".doctor-{secrets.token_hex(8)}" for _ in range(2))
    with layout.lake_directory(root) as folder:
        os.close(folder.create(first))
        try:
            return _linked_twice(folder.fd, first, second)
        finally:
            for name in (first, second):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder.fd)


def _linked_twice(folder: int, first: str, second: str) -> Check:
    try:
        os.link(first, second, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError as error:
        fix = "keep one writer at a time, or move the lake"
        return Check("commits", "problem", f"no hard links here ({error.strerror})", fix)
    try:
        os.link(first, second, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        return Check("commits", "ok", "exclusive: several writers are safe")
    return Check("commits", "problem", "a second writer could overwrite the first", "move the lake to a local disk")


def _sealing(lake: Lake) -> Iterator[Check]:
    """Closed days in many small files make every answer slow."""
    yesterday = utc_day(now_ns() - DAY_NS)
    with lake.snapshot() as snapshot:
        days = {
            day
            for files in snapshot.pinned.values()
            for day, uris in files.days().items()
            if day <= yesterday and len(uris) > 1
        }
    if days:
        yield Check("sealing", "note", f"{len(days)} closed days lie in several files each", "ioweather lake compact")
    else:
        yield Check("sealing", "ok", "no closed day lies in several files")


def _names(lake: Lake) -> Iterator[Check]:
    with lake.snapshot() as snapshot:
        systems = systems_of(snapshot)
        unmapped = sorted(name for name in systems if not snapshot.facility.is_mapped(name))
    if unmapped:
        shown = ", ".join(unmapped[:4]) + (", ..." if len(unmapped) > 4 else "")
        text = f"{len(unmapped)} not mapped to a file system: {shown}"
        yield Check("names", "note", text, "ioweather facility check, then edit facility.toml")
    elif systems:
        yield Check("names", "ok", "every name in the data is mapped")


def _twice(lake: Lake) -> Iterator[Check]:
    """A dump of accounting without Submit takes the start in its place, and so brings every job that had to wait a
    second time."""
    with lake.snapshot() as snapshot:
        doubled = snapshot.scalar(
            "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE step = '' AND start_ns IS NOT NULL "
            "GROUP BY cluster, job_id, start_ns HAVING count(DISTINCT submit_ns) > 1 AND max(submit_ns) = start_ns)"
        )
    if doubled:
        text = f"{doubled:,} jobs are in twice: with the time of submission and without"
        yield Check("accounting", "problem", text, "ioweather lake forget FILE for the dump without Submit")


def _file_server_clock(root: Path) -> Check:
    """A new file is stamped by the file system: on a shared one, by its server's clock."""
    name = f".doctor-{secrets.token_hex(8)}"
    with layout.lake_directory(root) as folder, os.fdopen(folder.create(name), "wb") as file:
        try:
            before = now_ns()
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            stamped, after = os.fstat(file.fileno()).st_mtime_ns, now_ns()
        finally:
            folder.unlink(name)
    apart = max(before - stamped, stamped - after, 0) / NS
    if apart > _CLOCKS_APART_SECONDS:
        text = f"{format_seconds(apart)} apart from that of the lake's file system"
        return Check("clock here", "problem", text, _NTP)
    return Check("clock here", "ok", "agrees with that of the lake's file system")


def _agents_clocks(spools: Sequence[Path]) -> Iterator[Check]:
    """An agent writes its time into a file every second, and the file system stamps that file."""
    offsets: dict[str, float] = {}
    for spool in spools:
        try:
            status, stamped = read_status(spool), (spool / STATUS_FILE).stat().st_mtime_ns
        except (DataUnavailable, OSError):
            continue
        offsets[status.host] = (status.written_ns - stamped) / NS
    for host, seconds in offsets.items():
        if abs(seconds) > _CLOCKS_APART_SECONDS:
            way = "ahead of" if seconds > 0 else "behind"
            text = f"{host} is {format_seconds(abs(seconds))} {way} its spool's file system"
            yield Check("clocks", "problem", text, _NTP)
    if len(offsets) > 1:
        apart = max(offsets.values()) - min(offsets.values())
        state: State = "ok" if apart <= _CLOCKS_APART_SECONDS else "problem"
        text = f"clocks of {len(offsets)} hosts are {format_seconds(apart)} apart"
        yield Check("agents", state, text, "" if state == "ok" else "set all by NTP")


def _clocks(lake: Lake) -> Iterator[Check]:
    """Rows from the future, or measured after they were written, are the sure sign of a clock that is wrong."""
    now = now_ns()
    wrong = False
    with lake.snapshot() as snapshot:
        for table in ("series", "responses"):
            files = snapshot.pinned[table]
            if not files.uris:
                continue
            last = snapshot.scalar(f"SELECT max(start_ns) FROM {table}")
            if isinstance(last, int) and last > now + 60 * NS:
                ahead = format_seconds((last - now) / NS)
                wrong = True
                text = f"`{table}` reaches {ahead} ahead, to {format_time_ns(last)}"
                yield Check("clocks", "problem", text, "check the clocks of the hosts, and --zone")
            elif table == "responses":
                recent = files.scan(set(sorted(files.days())[-_RECENT_DAYS:]))
                # An ingest id begins with the time of its writer.
                sql = f"""SELECT host, max(start_ns - CAST(split_part(ingest_id, '-', 1) AS BIGINT)) AS ahead_ns
                    FROM ({recent}) GROUP BY host HAVING ahead_ns > {_CLOCKS_APART_SECONDS * NS:.0f} ORDER BY 2 DESC"""
                for host, ahead_ns in snapshot.query(sql).fetchall():
                    wrong = True
                    ahead = format_seconds(ahead_ns / NS)
                    text = f"{host} is {ahead} or more ahead of the host that writes the lake"
                    yield Check("clocks", "problem", text, _NTP)
    if not wrong:
        yield Check("clocks", "ok", "nothing in the lake is from the future")
