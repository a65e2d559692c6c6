"""Measuring where one stands, without root: a small probe of this directory's file system, the block devices, and the
demonstration made in the background. All of it runs in children that end with this process, whatever ends it.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from ioweather.agent.status import read_status
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.safe_files import default_spool_dir
from ioweather.lake import layout

# Half a MiB read and written a second, 16 MiB of space: nobody notices, and a baseline is there after 15 seconds.
PROBE_OPTIONS: Final = ("--period", "500ms", "--request", "256KiB", "--file-size", "16MiB", "--pool", "20")
_PATIENCE_SECONDS: Final = 20.0
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)


@dataclass
class Child:
    """A command of ours in a session of its own, so that Ctrl-C reaches it only through us."""

    name: str
    arguments: Sequence[str]
    niceness: int = 0
    _process: subprocess.Popen[bytes] = field(init=False)
    # A file and not a pipe: nobody reads it while the child runs, and a full pipe would stop the child.
    _said: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ioweather", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,
            preexec_fn=self._prepare,
        )

    def _prepare(self) -> None:
        """Should this process be killed, the kernel kills the child; an agent's own children then notice, and tidy up.

        Not SIGTERM: the kernel sends it again as each thread of this process ends, and an agent that is asked twice
        waits for nothing.
        """
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell started us in the background
        os.nice(self.niceness)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def went_well(self) -> bool:
        return self._process.poll() == 0

    def complaint(self) -> str:
        """What it said before it ended, if it failed."""
        if self.is_running or self.went_well:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f"{self.name}: {lines[-1] if lines else f'exit code {self._process.returncode}'}"

    def ask_to_stop(self) -> None:
        """By SIGINT: a command that knows no other signal tidies up at this one."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)

    def wait(self, until: float) -> None:
        try:
            self._process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()


@dataclass(frozen=True)
class Here:
    """What runs. `spools` are where `now` looks."""

    target: Path
    lake: Path
    demo: Path
    spools: tuple[Path, ...]
    agents: tuple[Child, ...]
    maker: Child | None
    draft: Path

    def complaints(self) -> list[str]:
        children = [*self.agents, *([self.maker] if self.maker is not None else [])]
        return [text for child in children if (text := child.complaint())]

    def demo_is_ready(self) -> bool:
        """Moved to its place when it is whole: one that was interrupted is never taken for one."""
        if layout.is_lake(self.demo):
            return True
        if self.maker is None or not self.maker.went_well:
            return False
        self.demo.parent.mkdir(parents=True, exist_ok=True)
        self.draft.rename(self.demo)
        return True

    def demo_is_coming(self) -> bool:
        return self.maker is not None and self.maker.is_running


@contextmanager
def measuring(lake: Path, demo: Path, target: Path | None = None, *, with_demo: bool = True) -> Iterator[Here]:
    """Start everything; at the end stop everything and leave no file of the probe behind."""
    place = target.absolute() if target is not None else writable_place()
    probe_spool, block_spool = _free_spools()
    draft = demo.with_name(f".{demo.name}-{os.getpid()}")
    _remove_old_drafts(demo)
    agents = (
        Child("probe", ("probe", str(place), *PROBE_OPTIONS, "--lake", str(lake), "--spool", str(probe_spool))),
        Child("block devices", ("collect", "block", "--lake", str(lake), "--spool", str(block_spool))),
    )
    wanted = with_demo and not layout.is_lake(demo)
    # The demonstration computes for half a minute: it must not be what the probe sees.
    maker = Child("demonstration", ("demo", "--out", str(draft)), niceness=19) if wanted else None
    here = Here(place, lake, demo, (probe_spool,), agents, maker, draft)
    try:
        yield here
    finally:
        children = [*agents, *([maker] if maker is not None else [])]
        for child in children:
            child.ask_to_stop()
        until = time.monotonic() + _PATIENCE_SECONDS
        for child in children:
            child.wait(until)
        if draft.exists():
            shutil.rmtree(draft, ignore_errors=True)


def _remove_old_drafts(demo: Path) -> None:
    """Of demonstrations whose making was killed."""
    for draft in demo.parent.glob(f".{demo.name}-*"):
        maker = draft.name.rpartition("-")[2]
        if draft.lstat().st_uid == os.geteuid() and maker.isdigit() and not Path("/proc", maker).exists():
            shutil.rmtree(draft, ignore_errors=True)


def writable_place() -> Path:
    """This directory, else the home directory."""
    for place in (Path.cwd(), Path.home()):
        if os.access(place, os.W_OK | os.X_OK):
            return place
    raise UsageError(f"{Path.cwd()} cannot be written.", hint="Go to a directory of yours, or name one.")


def _free_spools() -> tuple[Path, Path]:
    """The usual spool, so that `ioweather now` finds it; one beside it where an agent has that."""
    usual = default_spool_dir()
    try:
        taken = not read_status(usual).is_stale(now_ns())
    except (DataUnavailable, IoweatherError):
        taken = False
    own = usual.with_name(f"{usual.name}-up") if taken else usual
    return own, usual.with_name(f"{usual.name}-up-block")
