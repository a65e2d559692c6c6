"""The lakes that a server shows, by name, and what it keeps in memory about them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.errors import DataUnavailable, LakeError
from ioweather.core.results import Answer, Exhibit
from ioweather.store import layout
from ioweather.store.lake import Lake, open_lake
from ioweather.workflows.analyse import Period, make_exhibits, study_of
from ioweather.workflows.events import EventRow, find_episodes, list_events
from ioweather.workflows.now import weather_now

MAIN = "main"
_EPISODES_EVERY_SECONDS = 60.0
_MOST_KEPT = 400


@dataclass
class Facilities:
    """`lakes` maps a name to a directory, which need not be there yet. Only agents of the main lake have spools."""

    lakes: Mapping[str, Path]
    spools: Sequence[Path] = ()
    _locks: dict[tuple[str, str], threading.Lock] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _drawn: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _episodes_at: dict[str, float] = field(default_factory=dict)

    def directory(self, name: str) -> Path:
        if name not in self.lakes:
            raise DataUnavailable(f"There is no facility {name!r} here.", hint=f"There are: {', '.join(self.lakes)}.")
        return self.lakes[name]

    def lake(self, name: str) -> Lake:
        directory = self.directory(name)
        try:
            return open_lake(directory)
        except LakeError as error:
            if directory.exists() and any(directory.iterdir()):
                raise
            raise DataUnavailable(
                "There is no data yet.", hint="Read some with `ioweather ingest`, or start a probe."
            ) from error

    def title(self, name: str) -> str:
        try:
            facility = self.lake(name).facility
        except (DataUnavailable, LakeError):
            return "demonstration (simulated)" if name == "demo" else name
        return facility.name if name == MAIN or facility.simulated else f"{facility.name} ({name})"

    def exhibit(self, name: str, exhibit_id: str, params: Mapping[str, str], period: Period) -> Exhibit:
        """A study makes all its exhibits at once and keeps them: the others of a page wait for the first."""
        study = study_of(exhibit_id)
        with self._lock(name, study.name if study is not None else exhibit_id):
            return make_exhibits(self.lake(name), [exhibit_id], params=params, period_ns=period)[0]

    def now(self, name: str) -> tuple[Answer, bool]:
        directory = self.directory(name)
        if name != MAIN:
            raise DataUnavailable("This facility is not measured now.", hint="Its past is on the other pages.")
        return weather_now(self.spools, str(directory) if layout.is_lake(directory) else None)

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

    def drawn(self, key: str, make: Callable[[], str]) -> str:
        """A drawing that is kept: one at a time, for drawing takes a whole processor."""
        with self._guard:
            if key in self._drawn:
                self._drawn.move_to_end(key)
                return self._drawn[key]
        with self._lock("", "drawing"):
            text = make()
        with self._guard:
            self._drawn[key] = text
            while len(self._drawn) > _MOST_KEPT:
                self._drawn.popitem(last=False)
        return text

    def _lock(self, name: str, what: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault((name, what), threading.Lock())
