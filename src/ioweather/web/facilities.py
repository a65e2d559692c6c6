"""The lakes that a server shows, by name, and what it keeps in memory about them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.errors import DataUnavailable, LakeError
from ioweather.core.results import Answer, Exhibit
from ioweather.store import layout
from ioweather.store.kept import Kept, KeptLake, mark_of
from ioweather.store.lake import Lake
from ioweather.workflows.analyse import Period, make_exhibits, study_of
from ioweather.workflows.events import EventRow, find_episodes, list_events
from ioweather.workflows.now import History, lake_history, weather_now

MAIN = "main"
_EPISODES_EVERY_SECONDS = 60.0
# How old the weather may be that is shown, and what the lake says beside it.
_NOW_SECONDS = 1.0
_HISTORY_SECONDS = 30.0
_MOST_KEPT_BYTES = 64 << 20


@dataclass
class Facilities:
    """`lakes` maps a name to a directory, which need not be there yet. Only agents of the main lake have spools."""

    lakes: Mapping[str, Path]
    spools: Sequence[Path] = ()
    _locks: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _answers: OrderedDict[Hashable, bytes] = field(default_factory=OrderedDict)
    _answers_bytes: int = 0
    _kept_lakes: dict[str, Kept] = field(default_factory=dict)
    _episodes_at: dict[str, float] = field(default_factory=dict)
    _now: tuple[float, tuple[Answer, bool]] | None = None
    _history: tuple[float, History] | None = None

    def directory(self, name: str) -> Path:
        if name not in self.lakes:
            raise DataUnavailable(f"There is no facility {name!r} here.", hint=f"There are: {', '.join(self.lakes)}.")
        return self.lakes[name]

    def lake(self, name: str) -> Lake:
        directory = self.directory(name)
        try:
            layout.check_version(directory)
        except LakeError as error:
            if directory.exists() and any(directory.iterdir()):
                raise
            raise DataUnavailable(
                "There is no data yet.", hint="Read some with `ioweather ingest`, or start a probe."
            ) from error
        with self._guard:
            return KeptLake(directory, self._kept_lakes.setdefault(name, Kept()))

    def title(self, name: str) -> str:
        try:
            facility = self.lake(name).facility
        except (DataUnavailable, LakeError):
            return "demonstration (simulated)" if name == "demo" else name
        return facility.name if name == MAIN or facility.simulated else f"{facility.name} ({name})"

    def exhibit(self, lake: Lake, name: str, exhibit_id: str, params: Mapping[str, str], period: Period) -> Exhibit:
        """A study makes all its exhibits at once and keeps them: the others of a page wait for the first."""
        study = study_of(exhibit_id)
        with self._lock(name, study.name if study is not None else exhibit_id):
            return make_exhibits(lake, [exhibit_id], params=params, period_ns=period)[0]

    def measured(self, name: str) -> Path:
        """The directory of a facility that is measured now; only the main one is."""
        directory = self.directory(name)
        if name != MAIN:
            raise DataUnavailable("This facility is not measured now.", hint="Its past is on the other pages.")
        return directory

    def now(self, name: str) -> tuple[Answer, bool]:
        """The same answer for all who ask within a second."""
        directory = self.measured(name)
        with self._lock(name, "now"):
            if self._now is None or time.monotonic() - self._now[0] > _NOW_SECONDS:
                history = self._lake_history(name, directory)
                self._now = (time.monotonic(), weather_now(self.spools, history=history))
            return self._now[1]

    def _lake_history(self, name: str, directory: Path) -> History:
        """The hour and the baseline from the lake: once in a while, for rows come there every few minutes."""
        if self._history is None or time.monotonic() - self._history[0] > _HISTORY_SECONDS:
            found = lake_history(self.lake(name)) if layout.is_lake(directory) else History()
            self._history = (time.monotonic(), found)
        return self._history[1]

    def events(self, name: str, kind: str | None, period: Period) -> list[EventRow]:
        """With episodes found anew every minute, where the lake can be written."""
        lake = self.lake(name)
        with self._lock(name, "events"):
            if time.monotonic() - self._episodes_at.get(name, -1e9) > _EPISODES_EVERY_SECONDS:
                self._episodes_at[name] = time.monotonic()
                # A lake one may only read shows what was found before.
                with suppress(LakeError, OSError):
                    find_episodes(lake)
        return list_events(lake, kind=kind, period_ns=period)

    def answered(self, name: str, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """An answer that is kept until the lake changes. `key` says all that it depends on beside the lake."""
        full = (mark_of(self.directory(name)), name, key)
        with self._guard:
            if full in self._answers:
                self._answers.move_to_end(full)
                return self._answers[full]
        data = make()
        with self._guard:
            self._answers_bytes += len(data) - len(self._answers.pop(full, b""))
            self._answers[full] = data
            while self._answers_bytes > _MOST_KEPT_BYTES and len(self._answers) > 1:
                self._answers_bytes -= len(self._answers.popitem(last=False)[1])
        return data

    def drawing(self) -> threading.Lock:
        """One at a time, for drawing takes a whole processor."""
        return self._lock("", "drawing")

    def taking(self) -> threading.Lock:
        """Rows that others send are taken one file at a time."""
        return self._lock("", "taking")

    def _lock(self, name: str, what: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault((name, what), threading.Lock())
