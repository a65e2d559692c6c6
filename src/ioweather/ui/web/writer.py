"""Runs the writer of pushed files, a child process, whenever files wait in the queue of the lake."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ioweather.ingestion.queue import Waiting, waiting

_LOG = logging.getLogger("ioweather.web")
_LOOK_SECONDS: Final = 2.0
# Between two passes: every commit adds a file to each table, and small files make reading slow.
_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
_COUNT_EVERY_SECONDS: Final = 1.0


class LakeWriter:
    """At most one pass at a time; it rests as long as it worked, and longer after each failure."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._child: subprocess.Popen[bytes] | None = None
        self._came = threading.Event()
        self._ending = threading.Event()
        self._counted = (float("-inf"), Waiting())

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def wake(self) -> None:
        """A file was put into the queue."""
        self._came.set()

    def waiting(self) -> Waiting:
        """Length of the queue, at most a second old."""
        counted_at, found = self._counted
        if time.monotonic() - counted_at > _COUNT_EVERY_SECONDS:
            found = waiting(self._root)
            self._counted = (time.monotonic(), found)
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True, name="writer")
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._came.set()
            if self._child is not None:
                self._child.terminate()
            thread.join(_STOP_SECONDS)
            if thread.is_alive() and self._child is not None:  # the queue has everything: a kill loses nothing
                self._child.kill()
            thread.join()

    def _run(self) -> None:
        failures = 0
        while not self._ending.is_set():
            self._came.wait(_LOOK_SECONDS)
            self._came.clear()
            if self._ending.is_set() or not waiting(self._root).files:
                continue
            began = time.monotonic()
            code = self._run_pass()
            took = time.monotonic() - began
            failures = failures + 1 if code else 0
            if code and not self._ending.is_set():
                _LOG.error("The writer of the lake ended with %d after %.0f s; what was pushed waits.", code, took)
            # The first failure may be a kill: try again at once.
            pause = max(_PAUSE_SECONDS, took) if not failures else 2.0 ** (failures - 2)
            self._ending.wait(min(pause, _LONGEST_PAUSE_SECONDS))

    def _run_pass(self) -> int:
        command = [sys.executable, "-m", "ioweather.ingestion.drain", str(self._root.absolute())]
        try:
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/"
            )
        except OSError as error:
            _LOG.error("The writer of the lake cannot be started: %s.", error)
            return 2
        if self._ending.is_set():
            self._child.terminate()
        return self._child.wait()
