"""The agent's events as log lines: it watches the status that is published every second, and tells what changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ioweather.agent.status import SpoolStatus, State, Status, TargetStatus
from ioweather.core.units import NS

_LOG: Final = logging.getLogger("ioweather.agent")
_WRONG: Final = ("hung", "failed")


class Journal:
    """Give it to an Agent as `on_status`."""

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._before: Status | None = None

    def __call__(self, status: Status) -> None:
        if self._before is None:
            place = status.spool.directory
            _LOG.info("started on %s, pid %d, run %s, spool %s", status.host, status.pid, status.run_id, place)
        for name, state, message in _parts(status):
            self._turn(name, state, message)
        self._spool(status)
        self._before = status

    def end(self, status: Status) -> None:
        """When everything is over, the last shipping too. What stays in the spool then, and why, nobody tells later."""
        if status.spool.message and status.spool.last_ship_ok is not False and not status.spool.refused_files:
            _LOG.warning("the spool: %s", status.spool.message)
        _LOG.info("stopped: %d rows written, %d files shipped", status.spool.written_rows, status.spool.shipped_files)

    def _turn(self, name: str, state: State, message: str) -> None:
        before = self._states.get(name)
        if before in _WRONG and state == "preparing":
            return  # started again: whether it works is not known yet
        self._states[name] = state
        if state in _WRONG and before != state:
            _LOG.warning("%s", _complaint(name, state, message))
        elif before in _WRONG and state not in _WRONG:
            _LOG.warning("%s: works again", name)

    def _spool(self, status: Status) -> None:
        now, before = status.spool, self._before.spool if self._before else None
        if now.last_ship_ok is False and (before is None or before.last_ship_ns != now.last_ship_ns):
            _LOG.warning("not shipped: %s", now.message)
        elif now.last_ship_ok and before is not None and before.last_ship_ok is False:
            _LOG.warning("shipped again")
        if now.refused_files > (before.refused_files if before else 0):
            _LOG.warning("%s", _refusal(now))
        if now.dropped_rows and not (before and before.dropped_rows):
            _LOG.error("%s", _loss(now))


def troubles(status: Status, *, hangs: bool = True) -> list[str]:
    """All that is wrong as of this status, in the words of the journal; `hangs`: those too."""
    wrong = _WRONG if hangs else ("failed",)
    found = [_complaint(*part) for part in _parts(status) if part[1] in wrong]
    spool = status.spool
    if spool.last_ship_ok is False:
        found.append(f"not shipped: {spool.message}")
    if spool.refused_files:
        found.append(_refusal(spool))
    if spool.dropped_rows:
        found.append(_loss(spool))
    return found


def _parts(status: Status) -> Iterator[tuple[str, State, str]]:
    """Name, state and message of every target, and of every source that is no probe."""
    probed = {target.target for target in status.targets}
    for target in status.targets:
        yield target.target, target.state, _doing(target)
    for source in status.sources:
        if source.name not in probed and source.name not in ("probe", "sample"):
            yield source.name, source.state, source.message


def _complaint(name: str, state: State, message: str) -> str:
    return f"{name}: {state}{f': {message}' if message else ''}"


def _refusal(spool: SpoolStatus) -> str:
    return f"the lake refused {spool.refused_files} files: {spool.refused_why or spool.message or 'it gave no reason'}"


def _loss(spool: SpoolStatus) -> str:
    why = spool.dropped_why or spool.message  # older agents tell the message alone
    return f"{spool.dropped_rows:,} rows given up{f': {why}' if why else ''}"


def _doing(target: TargetStatus) -> str:
    if target.state == "hung" and target.in_flight is not None:
        return f"{target.in_flight.op} for {target.in_flight.age_ns / NS:.1f} s"
    return target.message
