"""Agents of other hosts, as the server that they push to knows them.

`<lake>/inbox/<host>/` is to the server what the spool is to the agent: `status.json` in it is the last that the agent
told. A folder without one is of an agent that brings rows and says nothing of itself, as older ones do; its time of
change tells when they last came.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from ioweather.collect.status import STATUS_FILE, Status, read_status, write_status
from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.units import DAY_NS, HOUR_NS

# Of an agent that does not tell how often it ships: the longest that one waits before it tries again.
_UNTOLD_PERIOD_NS: Final = HOUR_NS
# Silent for longer, it is no more expected: jobs on ever new hosts leave folders behind.
_FORGOTTEN_NS: Final = 7 * DAY_NS


@dataclass(frozen=True)
class Remote:
    """`heard_ns` is by the clock of this machine. No status: the agent tells none, or one that cannot be read here."""

    host: str
    heard_ns: int
    status: Status | None = None

    def state(self, now_ns: int) -> str:
        """running, stopped (as it said itself) or silent."""
        if self.status is None:
            return "silent" if now_ns - self.heard_ns > _UNTOLD_PERIOD_NS else "running"
        if self.status.state == "stopped":
            return "stopped"
        return "silent" if self.status.is_silent(now_ns) else "running"


def inbox(root: Path) -> Path:
    return root / "inbox"


def keep_status(root: Path, status: Status, received_ns: int) -> None:
    """In place of the one before, whichever agent of the host that was of. One at a time per host."""
    with PrivateDirectory.named(inbox(root) / status.host, mode=0o750, keep=0o770, shared=True) as folder:
        write_status(replace(status, received_ns=received_ns), folder)


def keep_heard(root: Path, host: str) -> None:
    """Rows of the host came."""
    folder = inbox(root) / host
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        os.utime(folder)
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None


def remote_agents(root: Path | None, now_ns: int, local: Sequence[Status] = ()) -> list[Remote]:
    """By host, without those that are forgotten, and without those whose own spool was looked at."""
    if root is None:
        return []
    try:
        folders = sorted(entry.path for entry in os.scandir(inbox(root)) if entry.is_dir())
    except OSError:
        return []  # nobody pushes here, or it is not for us to see
    runs = {(status.host, status.run_id) for status in local}
    found = [remote for folder in folders if (remote := _remote(Path(folder))) is not None]
    return [
        remote
        for remote in found
        if now_ns - remote.heard_ns <= _FORGOTTEN_NS
        and (remote.status is None or (remote.host, remote.status.run_id) not in runs)
    ]


def _remote(folder: Path) -> Remote | None:
    try:
        came_ns = folder.stat().st_mtime_ns
    except OSError:
        return None  # taken away meanwhile
    try:
        status = _read(folder, (folder / STATUS_FILE).stat().st_mtime_ns)
    except (OSError, IoweatherError):
        return Remote(folder.name, came_ns)
    if status.is_silent(came_ns):  # rows came long after it: who brings them tells nothing any more
        return Remote(folder.name, came_ns)
    return Remote(folder.name, status.heard_ns, status)


@lru_cache(maxsize=4096)
def _read(folder: Path, changed_ns: int) -> Status:
    """Once for every change: a page that is live looks every second, and they come every few minutes."""
    return read_status(folder)
