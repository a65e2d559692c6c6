"""The lake that a server shows, and what is cached about it."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ioweather.core.contracts import Period
from ioweather.core.errors import DataUnavailable, IoweatherError, LakeError
from ioweather.core.results import Answer, Exhibit
from ioweather.core.tables import TABLES
from ioweather.core.units import local_zone
from ioweather.diagnosis.events import EventOutcome, EventsOutcome
from ioweather.diagnosis.now import History, NowOutcome, read_history, recent_history
from ioweather.lake import layout
from ioweather.lake.caches import version_mark
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import make_exhibits, study_of
from ioweather.topics.source import SharedResults, ask

T = TypeVar("T")
_LOG = logging.getLogger("ioweather.web")
# Maximum age of the weather before it is computed again and before a request waits for that; of the history behind it.
_NOW_SECONDS = 1.0
_OLD_SECONDS = 3.0
_HISTORY_SECONDS = 30.0
_RETRY_SECONDS = 60.0
_MOST_KEPT_BYTES = 64 << 20
_OBJECT_BYTES = 300 << 10  # assumed size of a cached object that is not bytes
_MOST_MADE_AT_ONCE = 2
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.2


@dataclass
class Refreshed(Generic[T]):
    """A value that a background thread computes again when it is older than `seconds` and is requested.

    A request waits for it, at most `patience_seconds`, where there is no value yet or only one older than
    `old_seconds`; others get the previous value.
    """

    make: Callable[[], T]
    seconds: float
    patience_seconds: float | None = None
    old_seconds: float = math.inf
    _made_at: float = -math.inf
    _value: list[T] = field(default_factory=list)
    _error: Exception | None = None
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> T | None:
        """The newest value; None if there is none yet. Raises the error of the last attempt until the next one."""
        with self._lock:
            age = time.monotonic() - self._made_at
            if self._thread is None and age > (min(self.seconds, _RETRY_SECONDS) if self._error else self.seconds):
                self._thread = threading.Thread(target=self._refresh, daemon=True, name="refresh")
                self._thread.start()
            thread = None if self._value and age <= self.old_seconds else self._thread
        if thread is not None:
            thread.join(self.patience_seconds)
        if self._error is not None:
            raise self._error
        return self._value[0] if self._value else None

    def _refresh(self) -> None:
        """Compute the value, and keep it or the error."""
        try:
            self._value[:], self._error = [self.make()], None
        except Exception as error:
            self._error = error
            _LOG.info("refreshing failed: %s", error)
        finally:
            self._made_at = time.monotonic()
            self._thread = None


@dataclass
class ServedLake:
    """The lake of a server, and cached results about it. The directory need not exist yet; `spools` are those of agents
    that measure the facility."""

    directory: Path
    spools: Sequence[Path] = ()
    first_page: Callable[[], Mapping[str, Any]] | None = None  # values of the page until the lake has rows
    beside: tuple[str, str] | None = None  # name and address of another dashboard
    is_stopping: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _studies: dict[str, threading.Lock] = field(default_factory=dict)
    _answers: OrderedDict[Hashable, Any] = field(default_factory=OrderedDict)
    _answers_bytes: int = 0
    _making: dict[Hashable, threading.Lock] = field(default_factory=dict)
    _at_once: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(_MOST_MADE_AT_ONCE))

    def __post_init__(self) -> None:
        self._history = Refreshed(self._read_history, _HISTORY_SECONDS)
        self._now = Refreshed(self._read_now, _NOW_SECONDS, old_seconds=_OLD_SECONDS)

    @property
    def lake(self) -> Lake:
        """The lake; raises DataUnavailable where there is none yet."""
        try:
            layout.check_version(self.directory)
        except LakeError as error:
            if self.directory.exists() and any(self.directory.iterdir()):
                raise
            raise DataUnavailable(
                "No data yet.",
                hint=(
                    "Ingest files: `ioweather ingest FILES`. Measure: `ioweather probe PATH`. Try an example: "
                    "`ioweather demo`."
                ),
            ) from error
        return Lake(self.directory)

    @property
    def title(self) -> str:
        """The name of the facility as people read it; empty where it is not known."""
        try:
            return self.lake.facility.name
        except (DataUnavailable, LakeError):
            return ""

    @property
    def has_rows(self) -> bool:
        with self.lake.snapshot() as snapshot:
            return bool(snapshot.filled(("responses", "series", "applications", "jobs")))

    def exhibit(self, lake: Lake, exhibit_id: str, params: Mapping[str, str], period: Period) -> Exhibit:
        """A study makes and caches all its exhibits at once: other requests of a page wait for the first."""
        with self._guard:
            study = self._studies.setdefault(study_of(exhibit_id).name, threading.Lock())
        with study:
            return make_exhibits(lake, [exhibit_id], params=params, period_ns=period)[0]

    def now(self) -> Answer:
        """The weather, the same for all requests within a second."""
        found = self._now.get()
        assert found is not None, "the first request waits for it"
        return found

    def _read_now(self) -> Answer:
        """Rows come to the lake every few minutes; the agents' status is as of now."""
        shared: SharedResults = {recent_history: self.history}
        return ask("now", self.directory, {"spool": self.own_spools}, shared=shared)

    @property
    def history(self) -> History:
        """What the lake adds to the status of agents; renewed every few minutes."""
        found = self._history.get() if layout.is_lake(self.directory) else None
        return found or History()

    def _read_history(self) -> History:
        with self.lake.snapshot() as snapshot:
            return read_history(snapshot)

    @property
    def own_spools(self) -> Sequence[Path]:
        """The spools of this server; without any, an empty place rather than the default spool of this machine."""
        return self.spools or (self.directory / "no-spool",)

    def events(self, kind: str | None, period: Period) -> Sequence[EventOutcome]:
        """Events of a kind in a period, the newest first; cached."""

        def make() -> Sequence[EventOutcome]:
            answer = ask("events", self.lake, {"kind": kind}, period_ns=period)
            return answer.result.events if isinstance(answer.result, EventsOutcome) else ()

        return self.answered(("events", kind, period), make, ("events",), queued=False)

    def answered(
        self, key: Hashable, make: Callable[[], T], tables: Collection[str] = TABLES, *, queued: bool = True
    ) -> T:
        """A cached result of `make`, valid until one of the tables changes. `key` is everything else it depends on,
        but for the zone of times in sentences.

        Concurrent callers wait for one computation. Of the `queued` ones few run at a time; a quick lookup, or one
        that is made inside a queued computation, does not queue.
        """
        full = (version_mark(self.directory, tables), key, local_zone())
        with self._guard:
            making = self._making.setdefault(full, threading.Lock())
        with self._hold(making):
            with self._guard:
                if full in self._answers:
                    self._making.pop(full, None)
                    self._answers.move_to_end(full)
                    known: T = self._answers[full]
                    return known
            with self._hold(self._at_once) if queued else nullcontext():
                value = make()
            with self._guard:
                self._making.pop(full, None)
                self._answers[full] = value
                self._answers_bytes += _cached_bytes(value)
                while self._answers_bytes > _MOST_KEPT_BYTES and len(self._answers) > 1:
                    self._answers_bytes -= _cached_bytes(self._answers.popitem(last=False)[1])
        return value

    @contextmanager
    def _hold(self, lock: threading.Lock | threading.BoundedSemaphore) -> Iterator[None]:
        """Hold the lock. Waiting ends with an error when the server stops, or after a minute."""
        until = time.monotonic() + _WAIT_SECONDS
        while not lock.acquire(timeout=_LOOK_SECONDS):
            if self.is_stopping or time.monotonic() > until:
                why = "The server is stopping." if self.is_stopping else "Too many requests."
                raise IoweatherError(why, hint="Try again in a few seconds.", kind="Busy")
        try:
            if self.is_stopping:
                raise IoweatherError("The server is stopping.", hint="Try again in a few seconds.", kind="Busy")
            yield
        finally:
            lock.release()

    def stop(self) -> None:
        """Refuse waiting requests, so that only running computations delay the end of the server."""
        self.is_stopping = True


def is_wrong(now: Answer) -> bool:
    """Whether the answer of `now` finds something wrong."""
    return isinstance(now.result, NowOutcome) and now.result.wrong


def _cached_bytes(value: object) -> int:
    return len(value) if isinstance(value, bytes) else _OBJECT_BYTES
