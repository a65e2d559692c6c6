"""The live baseline: a running median of all durations, in little memory, that survives a restart.

Durations are counted in bins 2% wide, so that the median is right to 1%. When the counts grow past a limit all are
halved: older operations fade out, and the baseline follows what the storage has become.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ioweather.core.private_directory import PrivateDirectory
from ioweather.sources.live.contract import Operation

_LOG_WIDTH = math.log(1.02)
_LEAST_COUNT = 30  # fewer say too little to call anything slow
_MOST_COUNT = 30 * 86_400  # a month of one a second (kun19 section 3.3 takes the median of the whole period)
_FILE = "baseline.json"
_VERSION = 1


class RunningMedian:
    def __init__(self, bins: Mapping[int, int] | None = None) -> None:
        self._set(dict(bins or {}))

    def _set(self, bins: dict[int, int]) -> None:
        self._bins = bins
        self.count = sum(bins.values())
        # The bin that holds the middle operation, and how many lie below it: moved with each operation, never sought.
        self._middle, self._below = min(bins, default=0), 0
        self._move()

    def add(self, duration_ns: int) -> None:
        place = math.floor(math.log(max(1, duration_ns)) / _LOG_WIDTH)
        if self.count == 0:
            self._middle = place
        self._bins[place] = self._bins.get(place, 0) + 1
        self.count += 1
        self._below += place < self._middle
        self._move()
        if self.count > _MOST_COUNT:
            self._set({place: count // 2 for place, count in self._bins.items() if count > 1})

    def _move(self) -> None:
        """Up or down to the first bin with which half of the operations are reached."""
        while 2 * (self._below + self._bins.get(self._middle, 0)) < self.count:
            self._below += self._bins.get(self._middle, 0)
            self._middle += 1
        while self._below and 2 * self._below >= self.count:
            self._middle -= 1
            self._below -= self._bins.get(self._middle, 0)

    def median_ns(self) -> int | None:
        """Middle of the bin that holds the middle operation; None while there are too few."""
        return round(math.exp((self._middle + 0.5) * _LOG_WIDTH)) if self.count >= _LEAST_COUNT else None

    @property
    def bins(self) -> dict[int, int]:
        return dict(self._bins)


Key = tuple[str, Operation]


def save_baselines(medians: Mapping[Key, RunningMedian], folder: PrivateDirectory) -> None:
    entries = [
        {"target": target, "op": kind.op, "request_bytes": kind.request_bytes, "mode": kind.mode, "bins": median.bins}
        for (target, kind), median in medians.items()
    ]
    folder.replace(_FILE, json.dumps({"version": _VERSION, "entries": entries}).encode())


def load_baselines(directory: Path) -> dict[Key, RunningMedian]:
    """What an agent before has learned. A file that cannot be used is no loss: the baseline is learned again."""
    try:
        data = json.loads((directory / _FILE).read_text(encoding="utf-8"))
        return {_key(entry): _median(entry) for entry in data["entries"]} if data["version"] == _VERSION else {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _key(entry: Mapping[str, Any]) -> Key:
    return entry["target"], Operation(entry["op"], entry["request_bytes"], entry["mode"])


def _median(entry: Mapping[str, Any]) -> RunningMedian:
    return RunningMedian({int(place): int(count) for place, count in entry["bins"].items()})
