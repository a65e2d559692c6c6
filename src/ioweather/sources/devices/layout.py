"""What the columns of iostat, sar and collectl mean: a name, a metric of `series`, a factor.

Columns are found by name, never by place: they moved in sysstat 9, 10 and 12. A name that is not here is left alone;
`tps` alone is neither reads nor writes and makes no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import KIB, MIB
from ioweather.sources.disk_counters import SECTOR_BYTES

# Where a counter wrapped or restarted, sysstat may print 18446744073709551.61 or less than nothing: that is no sample;
# a little less than nothing is rounding.
_MOST_PRINTED = 1e12


@dataclass(frozen=True)
class Reading:
    """How one printed number becomes a value: times `factor`, and times the interval where it is a rate."""

    metric: str
    factor: float = 1.0
    is_rate: bool = False


def _rates(metric: str, names: Mapping[str, float]) -> dict[str, Reading]:
    return {name: Reading(metric, factor, is_rate=True) for name, factor in names.items()}


_MILLISECONDS = 1e-3
_PERCENT = 1e-2

# Text and JSON of iostat; the short JSON names without /s are those of sysstat 11. A kB of sysstat is 1024 bytes.
# `kB_read` (iostat -d) is the amount itself, free of the rounding of the stamps; `MB_read` is too coarse to use.
IOSTAT: dict[str, Reading] = {
    **_rates("read_ops", {"r/s": 1, "r": 1}),
    **_rates("write_ops", {"w/s": 1, "w": 1}),
    **_rates("discard_ops", {"d/s": 1}),
    **_rates("flush_ops", {"f/s": 1}),
    "kB_read": Reading("read_bytes", KIB),
    "kB_wrtn": Reading("write_bytes", KIB),
    "kB_dscd": Reading("discard_bytes", KIB),
    "Blk_read": Reading("read_bytes", SECTOR_BYTES),
    "Blk_wrtn": Reading("write_bytes", SECTOR_BYTES),
    "Blk_dscd": Reading("discard_bytes", SECTOR_BYTES),
    **_rates("read_bytes", {"rkB/s": KIB, "rMB/s": MIB, "rsec/s": SECTOR_BYTES, "rkB": KIB,
                            "kB_read/s": KIB, "MB_read/s": MIB, "Blk_read/s": SECTOR_BYTES}),
    **_rates("write_bytes", {"wkB/s": KIB, "wMB/s": MIB, "wsec/s": SECTOR_BYTES, "wkB": KIB,
                             "kB_wrtn/s": KIB, "MB_wrtn/s": MIB, "Blk_wrtn/s": SECTOR_BYTES}),
    **_rates("discard_bytes", {"dkB/s": KIB, "dMB/s": MIB, "dsec/s": SECTOR_BYTES,
                               "kB_dscd/s": KIB, "MB_dscd/s": MIB, "Blk_dscd/s": SECTOR_BYTES}),
    "await": Reading("await_seconds", _MILLISECONDS),
    "r_await": Reading("read_await_seconds", _MILLISECONDS),
    "w_await": Reading("write_await_seconds", _MILLISECONDS),
    "aqu-sz": Reading("queue_length"),
    "avgqu-sz": Reading("queue_length"),
    "%util": Reading("busy_ratio", _PERCENT),
    "util": Reading("busy_ratio", _PERCENT),
}  # fmt: skip

# sadf: one device (sar -d), and the whole host (sar -b). The JSON names have no /s and are rates all the same.
SAR: dict[str, Reading] = {
    **_rates("read_ops", {"rtps": 1}),
    **_rates("write_ops", {"wtps": 1}),
    **_rates("discard_ops", {"dtps": 1}),
    **_rates("read_bytes", {"rkB/s": KIB, "rkB": KIB, "rd_sec/s": SECTOR_BYTES, "rd_sec": SECTOR_BYTES,
                            "bread/s": SECTOR_BYTES, "bread": SECTOR_BYTES}),
    **_rates("write_bytes", {"wkB/s": KIB, "wkB": KIB, "wr_sec/s": SECTOR_BYTES, "wr_sec": SECTOR_BYTES,
                             "bwrtn/s": SECTOR_BYTES, "bwrtn": SECTOR_BYTES}),
    **_rates("discard_bytes", {"dkB/s": KIB, "dkB": KIB, "dc_sec/s": SECTOR_BYTES, "dc_sec": SECTOR_BYTES,
                               "bdscd/s": SECTOR_BYTES, "bdscd": SECTOR_BYTES}),
    "await": Reading("await_seconds", _MILLISECONDS),
    "aqu-sz": Reading("queue_length"),
    "avgqu-sz": Reading("queue_length"),
    "%util": Reading("busy_ratio", _PERCENT),
    "util-percent": Reading("busy_ratio", _PERCENT),
}  # fmt: skip

# collectl: per device ([DSK:sda]Reads) and all together ([DSK]ReadTot). Its QueLen is the mean while the device was
# busy, not over the interval, and therefore another quantity than `queue_length`.
COLLECTL: dict[str, Reading] = {
    **_rates("read_ops", {"Reads": 1, "ReadTot": 1}),
    **_rates("write_ops", {"Writes": 1, "WriteTot": 1}),
    **_rates("read_bytes", {"RKBytes": KIB, "ReadKBTot": KIB}),
    **_rates("write_bytes", {"WKBytes": KIB, "WriteKBTot": KIB}),
    "Wait": Reading("await_seconds", _MILLISECONDS),
    "WaitR": Reading("read_await_seconds", _MILLISECONDS),
    "WaitW": Reading("write_await_seconds", _MILLISECONDS),
    "Util": Reading("busy_ratio", _PERCENT),
}

# The columns whose sum is the number of requests behind a mean response time.
_REQUESTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "await_seconds": (("tps",), ("r/s", "w/s"), ("r", "w")),
    "read_await_seconds": (("r/s",), ("r",)),
    "write_await_seconds": (("w/s",), ("w",)),
}
_IDLE = ("%idle", "idle", "Idle%")
_WAITING = ("%iowait", "iowait", "Wait%")


@dataclass(frozen=True)
class Layout:
    """The columns of one table, in their order, with what they mean."""

    columns: tuple[str, ...]
    readings: Mapping[str, Reading]

    @cached_property
    def _chosen(self) -> dict[str, tuple[int, Reading]]:
        """Metric to (column, reading). An amount beats a rate; among equals the first column counts."""
        chosen: dict[str, tuple[int, Reading]] = {}
        for index, name in enumerate(self.columns):
            reading = self.readings.get(name)
            if reading is None:
                continue
            rival = chosen.get(reading.metric)
            if rival is None or (rival[1].is_rate and not reading.is_rate):
                chosen[reading.metric] = (index, reading)
        return chosen

    def metrics(self, printed: Floats, seconds: Floats) -> dict[str, tuple[Floats, Bools | None]]:
        """Values of every metric in a table of `printed` numbers (sample x column), and where they are present.

        The mask is None where all are. A value can be present and null: no request, no response time.
        """
        printed = np.where((printed > -1) & (printed <= _MOST_PRINTED), np.maximum(printed, 0), np.nan)
        result: dict[str, tuple[Floats, Bools | None]] = {}
        for metric, (index, reading) in self._chosen.items():
            raw = printed[:, index]
            values = raw * (reading.factor * seconds) if reading.is_rate else raw * reading.factor
            if metric.endswith("_ratio"):
                values = np.clip(values, 0.0, 1.0)  # rounding of jiffies prints up to 100.4 %
            if metric in _REQUESTS:
                values = np.where((raw == 0) & (self._requests(metric, printed) == 0), np.nan, values)
            result[metric] = (values, _present(raw))
        if "await_seconds" not in result and {"r_await", "w_await"} <= set(self.columns):
            result["await_seconds"] = self._mean_await(printed)
        return result

    def _requests(self, metric: str, printed: Floats) -> Floats:
        for names in _REQUESTS[metric]:
            if all(name in self.columns for name in names):
                return np.asarray(sum(printed[:, self.columns.index(name)] for name in names))
        return np.full(len(printed), np.nan)  # unknown: then a printed 0 stands

    def _mean_await(self, printed: Floats) -> tuple[Floats, Bools | None]:
        """sysstat 12 prints the response time of reads, writes and discards apart; sar and older iostat their mean over
        requests, which is what `await_seconds` is."""
        requests = np.zeros(len(printed))
        waited = np.zeros(len(printed))
        for kind in "rwd":
            rate = next((name for name in (f"{kind}/s", kind) if name in self.columns), None)
            if rate is None or f"{kind}_await" not in self.columns:
                continue
            count = printed[:, self.columns.index(rate)]
            requests += count
            waited += count * printed[:, self.columns.index(f"{kind}_await")]
        with np.errstate(invalid="ignore", divide="ignore"):
            values = waited / requests * _MILLISECONDS
        return values, _present(requests)


def _present(raw: Floats) -> Bools | None:
    finite = np.isfinite(raw)
    return None if finite.all() else finite


def cpu_ratio(columns: Sequence[str], printed: Floats) -> Floats | None:
    """Share of CPU time not idle, from a table of percentages. Waiting for I/O is idling: nothing is computed."""
    idle = next((columns.index(name) for name in _IDLE if name in columns), None)
    if idle is None:
        return None
    waiting = next((columns.index(name) for name in _WAITING if name in columns), None)
    unworked = printed[:, idle] + (0.0 if waiting is None else printed[:, waiting])
    return np.clip(1.0 - unworked * _PERCENT, 0.0, 1.0)
