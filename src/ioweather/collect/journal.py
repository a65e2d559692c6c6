"""The agent's events as log lines: it watches the status that is published every second, and tells what changed."""

from __future__ import annotations

import logging
from typing import Final

from ioweather.collect.status import State, Status, TargetStatus
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
            _LOG.info("started on %s, pid %d, run %s, spool %s", status.host, status.pid, status.run_id,
                      status.spool.directory)  # fmt: skip
        probed = {target.target for target in status.targets}
        for target in status.targets:
            self._turn(target.target, target.state, _doing(target))
        for source in status.sources:
            if source.name not in probed and source.name not in ("probe", "sample"):
                self._turn(source.name, source.state, source.message)
        self._spool(status)
        self._before = status

    def end(self, status: Status) -> None:
        """When everything is over, the last shipping too."""
        _LOG.info("stopped: %d rows written, %d files shipped", status.spool.written_rows, status.spool.shipped_files)

    def _turn(self, name: str, state: State, message: str) -> None:
        before, self._states[name] = self._states.get(name), state
        if state in _WRONG and before != state:
            _LOG.warning("%s: %s%s", name, state, f": {message}" if message else "")
        elif before in _WRONG and state not in _WRONG:
            _LOG.warning("%s: works again", name)

    def _spool(self, status: Status) -> None:
        now, before = status.spool, self._before.spool if self._before else None
        if now.last_ship_ok is False and (before is None or before.last_ship_ns != now.last_ship_ns):
            _LOG.warning("not shipped: %s", now.message)
        elif now.last_ship_ok and before is not None and before.last_ship_ok is False:
            _LOG.warning("shipped again")
        if now.refused_files > (before.refused_files if before else 0):
            _LOG.warning("the lake refused %d files: %s", now.refused_files, now.message)
        if now.dropped_rows and not (before and before.dropped_rows):
            _LOG.error("the spool is full: rows are given up")


def _doing(target: TargetStatus) -> str:
    if target.state == "hung" and target.in_flight is not None:
        return f"{target.in_flight.op} for {target.in_flight.age_ns / NS:.1f} s"
    return target.message
