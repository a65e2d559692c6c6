"""Agents of other hosts that push to this lake: `<lake>/inbox/<host>/`.

`status.json` in it is the last status that the agent pushed. An agent that pushes rows without a status, as old ones
do, has a folder without one; its modification time is that of the last push.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from ioweather.agent.status import STATUS_FILE, Status, read_status, write_status
from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import DAY_NS, HOUR_NS

# For an agent whose ship period is not known: the longest pause between two of its attempts.
_LONGEST_PERIOD_NS: Final = HOUR_NS
# After this an agent is not expected any more: jobs on ever new hosts leave folders behind.
_FORGOTTEN_NS: Final = 7 * DAY_NS


@dataclass(frozen=True)
class Remote:
    """`heard_ns` is by the clock of this machine. `status` is None if the agent pushes none that can be read here."""

    host: str
    heard_ns: int
    status: Status | None = None

    def state(self, now_ns: int) -> str:
        """running, stopped (by its own status) or silent."""
        if self.status is None:
            return "silent" if now_ns - self.heard_ns > _LONGEST_PERIOD_NS else "running"
        if self.status.state == "stopped":
            return "stopped"
        return "silent" if self.status.is_silent(now_ns) else "running"


def inbox(root: Path) -> Path:
    return root / "inbox"


def keep_status(root: Path, status: Status, received_ns: int) -> None:
    """Replace the status of this host. Call it once at a time per host."""
    with PrivateDirectory.named(inbox(root) / status.host, mode=0o750, keep=0o770, shared=True) as folder:
        write_status(replace(status, received_ns=received_ns), folder)


def keep_heard(root: Path, host: str) -> None:
    """Note that rows of the host came."""
    folder = inbox(root) / host
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        os.utime(folder)
    except OSError as error:
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None


def remote_agents(root: Path | None, now_ns: int, local: Sequence[Status] = ()) -> list[Remote]:
    """Agents by host, without those silent for a week and those whose status is in `local` already."""
    runs = {(status.host, status.run_id) for status in local}
    agents: list[Remote] = []
    try:
        folders = sorted(entry.path for entry in os.scandir(inbox(root)) if entry.is_dir()) if root else []
    except OSError:
        return []  # no host pushes here, or this user may not read it
    for folder in map(Path, folders):
        try:
            came_ns = folder.stat().st_mtime_ns
        except OSError:
            continue  # removed since it was listed
        agent = Remote(folder.name, came_ns)
        try:
            status = _read(folder, (folder / STATUS_FILE).stat().st_mtime_ns)
            if not status.is_silent(came_ns):  # else newer rows come from an agent that pushes no status
                agent = Remote(folder.name, status.heard_ns, status)
        except (OSError, IoweatherError):
            pass
        if now_ns - agent.heard_ns > _FORGOTTEN_NS or (agent.status and (agent.host, agent.status.run_id) in runs):
            continue
        agents.append(agent)
    return agents


@lru_cache(maxsize=4096)
def _read(folder: Path, changed_ns: int) -> Status:
    """Read a status once for every change: a live page asks every second."""
    return read_status(folder)
