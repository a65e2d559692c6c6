"""What is looked at again from time to time, by a thread of its own: whoever asks meanwhile gets what was there."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
_LOG = logging.getLogger("ioweather.web")


@dataclass
class Refreshed(Generic[T]):
    """`make` is called at most every `seconds`, and only when somebody asks. The first who asks waits for it, for
    `patience_seconds` at most; later ones never do."""

    make: Callable[[], T]
    seconds: float
    patience_seconds: float | None = None
    _made_at: float = -math.inf
    _value: list[T] = field(default_factory=list)
    _error: Exception | None = None
    _thread: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> T | None:
        """None where the first is not there yet. An error is told to all who ask until the next try."""
        with self._lock:
            if self._thread is None and time.monotonic() - self._made_at > self.seconds:
                self._made_at = time.monotonic()
                self._thread = threading.Thread(target=self._refresh, daemon=True, name="refresh")
                self._thread.start()
            thread = None if self._value else self._thread
        if thread is not None:
            thread.join(self.patience_seconds)
        if self._error is not None:
            raise self._error
        return self._value[0] if self._value else None

    def _refresh(self) -> None:
        try:
            self._value[:], self._error = [self.make()], None
        except Exception as error:
            self._error = error
            _LOG.info("refreshing failed: %s", error)
        finally:
            self._made_at = time.monotonic()
            self._thread = None
