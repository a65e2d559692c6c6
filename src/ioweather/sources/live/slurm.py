"""Slurm's accounting, polled: what `sacct` prints goes to the lake as the source `sacct` reads it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass, field

from ioweather.core.errors import SourceError
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.sources.live.contract import Reading, Ready, Reporter
from ioweather.sources.live.monotonic_samples import Clocks

FIELDS = "JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
# Accounting arrives late: each poll looks back further than the last one, and the lake takes no row twice.
_OVERLAP_NS = HOUR_NS


def is_here() -> bool:
    return shutil.which("sacct") is not None


@dataclass
class SlurmAccounting(Reading):
    period_ns: int = 5 * MINUTE_NS
    timeout_seconds: float = 120.0
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    name = "slurm"

    def __post_init__(self) -> None:
        self._since_ns: int | None = None
        self._last = ""

    def prepare(self, reporter: Reporter) -> Ready:
        if not is_here():
            raise SourceError("sacct is not on the PATH.", hint="Run this where Slurm's commands are.")
        return Ready(self.host)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        now = self.clocks.wall_ns()
        since = now - 24 * HOUR_NS if self._since_ns is None else self._since_ns - _OVERLAP_NS
        text = poll_accounting((now - since) // NS, self.timeout_seconds)
        self._since_ns = now
        if text.count("\n") > 1 and text != self._last:
            reporter.document(f"sacct-{now}.txt", text)
        self._last = text


def poll_accounting(back_seconds: int, timeout_seconds: float = 120.0) -> str:
    """What `sacct` says of everybody's jobs of the last seconds, as the source `sacct` reads it."""
    command = ["sacct", "--allusers", "--parsable2", "--delimiter=\x1f"]
    command += [f"--starttime=now-{back_seconds}seconds", f"--format={FIELDS}"]
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}  # epochs: no zone to guess
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"did not answer in {timeout_seconds:g} s" if isinstance(error, subprocess.TimeoutExpired) else error
        raise SourceError(f"sacct: {why}.") from None
    if done.returncode != 0:
        raise SourceError(f"sacct failed: {done.stderr.strip()[:200] or done.returncode}.")
    return done.stdout
