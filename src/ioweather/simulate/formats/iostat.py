"""iostat -x text of sysstat 12, one file per server, one report a minute, ISO times."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np

from ioweather.simulate.observed import Observed
from ioweather.simulate.resources import Calendar, Resources

_HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
)
_LETTERS = "bcdefghijklmnopqrstuvwxyz"


class IostatWriter:
    """A device per target: sdb, sdc, ... of its server. Files stay open from window to window."""

    def __init__(self, folder: Path, resources: Resources, calendar: Calendar) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._resources, self._calendar = folder, resources, calendar
        self._files: dict[int, TextIO] = {}

    def add(self, observed: Observed) -> None:
        for server in range(self._resources.servers):
            targets = np.flatnonzero(self._resources.server_of == server).tolist()
            self._write(server, targets, observed)

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _open(self, server: int, observed: Observed) -> TextIO:
        if server not in self._files:
            host = self._resources.oss_name(server)
            file = (self._folder / f"{host}.iostat.txt").open("w", encoding="utf-8")
            moment = self._calendar.local(observed.readings.start)
            file.write(f"Linux 6.1.0 ({host}) \t{moment:%Y-%m-%d} \t_x86_64_\t(32 CPU)\n\n")
            # The first report is the mean since boot, not a sample.
            file.write(_stamp(moment) + _HEADER + _line(0, 40.0, 8000.0, 30.0, 6000.0, 4.0) + "\n\n")
            self._files[server] = file
        return self._files[server]

    def _write(self, server: int, targets: list[int], observed: Observed) -> None:
        readings = observed.readings
        step = float(readings.step_seconds)
        file = self._open(server, observed)
        capacity = self._resources.capacity[targets] * step
        columns = [
            observed.read_requests[:, targets] / step, observed.read_bytes[:, targets] / step / 1024.0,
            observed.write_requests[:, targets] / step, observed.write_bytes[:, targets] / step / 1024.0,
            100.0 * np.clip((observed.read_bytes + observed.write_bytes)[:, targets] / capacity, 0, 1),
        ]  # fmt: skip
        # A server that is down writes nothing; single lost reports are lost for all its devices.
        gone = observed.missing[:, targets].any(axis=1)
        rows = np.stack(columns, axis=2)
        for place in np.flatnonzero(~gone).tolist():
            moment = self._calendar.local(readings.start + (place + 1) * step)  # iostat stamps the end
            lines = [_line(device, *values) for device, values in enumerate(rows[place].tolist())]
            file.write(_stamp(moment) + _HEADER + "".join(lines) + "\n\n")


def _stamp(moment: object) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S%z}\n"


def _line(device: int, reads: float, read_kib: float, writes: float, write_kib: float, busy: float) -> str:
    wait = 0.4 + busy / 12.0
    return (
        f"sd{_LETTERS[device % len(_LETTERS)]}      {reads:9.2f} {read_kib:11.2f}     0.00   0.00 {wait:7.2f} "
        f"{read_kib / reads if reads else 0.0:8.2f} {writes:9.2f} {write_kib:11.2f}     0.00   0.00 {wait * 1.3:7.2f} "
        f"{write_kib / writes if writes else 0.0:8.2f}    0.00      0.00     0.00   0.00    0.00     0.00    0.10    "
        f"0.50 {wait / 5:7.2f} {busy:6.2f}\n"
    )
