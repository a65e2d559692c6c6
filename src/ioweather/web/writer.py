"""Keeps the writer of the lake alive: a child that is started when rows come, and again when it died."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ioweather.collect.queue import Waiting, waiting

_LOG = logging.getLogger("ioweather.web")
_LOOK_SECONDS: Final = 2.0
# After it died, the next one waits; longer each time, until one has lived for a while.
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_HEALTHY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 2.0
_COUNT_EVERY_SECONDS: Final = 1.0


class LakeWriter:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._child: subprocess.Popen[bytes] | None = None
        self._came = threading.Event()
        self._ending = threading.Event()
        self._started_at = 0.0
        self._pause_seconds = 0.0
        self._counted = (float("-inf"), Waiting())

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def wake(self) -> None:
        """Something came."""
        self._came.set()

    def waiting(self) -> Waiting:
        """How long the queue is, as of a second ago at most."""
        counted_at, found = self._counted
        if time.monotonic() - counted_at > _COUNT_EVERY_SECONDS:
            found = waiting(self._root)
            self._counted = (time.monotonic(), found)
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._keep, daemon=True, name="writer")
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            self._came.set()
            thread.join()
            self._stop()

    def _keep(self) -> None:
        while not self._ending.is_set():
            came = self._came.wait(_LOOK_SECONDS)
            self._came.clear()
            if self._ending.is_set():
                return
            if self.pid is None:
                self._note_death()
                # One that had nothing to do ended perhaps just when something came.
                if (came or waiting(self._root).files) and not self._ending.wait(self._pause_seconds):
                    self._start()
            elif came:
                with suppress(BrokenPipeError):
                    self._tell()

    def _note_death(self) -> None:
        if self._child is None:
            return
        code = self._child.returncode
        self._hang_up()
        self._child = None
        lived = time.monotonic() - self._started_at
        if code == 0 or lived > _HEALTHY_SECONDS:
            self._pause_seconds = 0.0
        else:
            self._pause_seconds = min(max(2 * self._pause_seconds, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        if code:
            _LOG.error("The writer of the lake ended with %d after %.0f s; what was pushed waits.", code, lived)

    def _start(self) -> None:
        self._started_at = time.monotonic()
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "ioweather.workflows.ingest.drain", str(self._root.absolute())],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True, cwd="/",
            )  # fmt: skip
        except OSError as error:
            _LOG.error("The writer of the lake cannot be started: %s.", error)
            self._pause_seconds = _LONGEST_PAUSE_SECONDS

    def _tell(self) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()

    def _stop(self) -> None:
        """It ends after what it is at. If that is long it is killed, which harms nothing: the queue has it all."""
        if self._child is None:
            return
        self._hang_up()
        try:
            self._child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _hang_up(self) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
