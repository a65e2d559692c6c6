"""GPFS as this node counts it: `mmpmon` asked every few seconds, as amounts in `series`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from dataclasses import dataclass, field

from ioweather.core.errors import SourceError
from ioweather.core.units import NS
from ioweather.sources.counter_samples import Differ, Origin, Sample
from ioweather.sources.gpfs.mmpmon import samples
from ioweather.sources.live.contract import Reading, Ready, Reporter
from ioweather.sources.live.rows import report_growth

# Where GPFS installs its commands; few put that on their PATH.
_PLACE = "/usr/lpp/mmfs/bin"


def mmpmon() -> str | None:
    return shutil.which("mmpmon", path=f"{os.environ.get('PATH', os.defpath)}:{_PLACE}")


@dataclass
class GpfsNode(Reading):
    period_ns: int = 10 * NS
    timeout_seconds: float = 30.0
    host: str = field(default_factory=socket.gethostname)
    name = "gpfs"

    def __post_init__(self) -> None:
        self._differ = Differ()
        self._covered_until_ns: dict[Origin, int] = {}

    def prepare(self, reporter: Reporter) -> Ready:
        found = sorted({origin.target.system for origin, _ in self._ask()[0]})
        return Ready(self.host, message=", ".join(found) or "no GPFS file system is mounted here")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        found, refused = self._ask()
        for origin, grown in self._differ.update(found):
            # A clock that was set back: the same seconds are not told of twice.
            if grown.start_ns >= self._covered_until_ns.get(origin, 0):
                self._covered_until_ns[origin] = grown.end_ns
                report_growth(reporter, origin.target, grown)
        if refused:
            raise SourceError(f"{len(refused)} answer(s) of mmpmon left out: {refused[0]}.")

    def _ask(self) -> tuple[list[tuple[Origin, Sample]], list[str]]:
        command = mmpmon()
        if command is None:
            raise SourceError("mmpmon is not installed here.", hint="Run this on a node of GPFS, as root.")
        try:
            done = subprocess.run(
                [command, "-p", "-i", "/dev/stdin"],
                input="fs_io_s\n",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self.timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"mmpmon did not answer in {self.timeout_seconds:g} s.") from None
        if done.returncode != 0:
            raise SourceError(f"mmpmon failed: {done.stderr.strip()[:200] or done.returncode}.")
        items = list(samples(done.stdout.splitlines()))
        named = [
            (origin._replace(target=origin.target._replace(name=self.host)), sample)
            for origin, sample in (item for item in items if not isinstance(item, str))
        ]
        return named, [item for item in items if isinstance(item, str)]
