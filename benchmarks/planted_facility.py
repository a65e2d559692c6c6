"""What an analysis of a simulated facility should find: the servers without lost samples and rounding, the laws of
response times, and the files.

It follows the papers' definitions and shares no code with the analysis.
"""

from __future__ import annotations

import numpy as np

from ioweather.core.frames import Floats
from ioweather.simulate.facility_files import SIZES, make_contents, mean_response_seconds, observe
from ioweather.simulate.fluid import OPERATIONS, Readings
from ioweather.simulate.generate import Generated
from ioweather.simulate.presets import for_days, preset_named
from ioweather.simulate.world import World, make_programs

_TOLERANCE = 0.05
_PARALLELISM_MINUTES = 4000


def planted_laws(made: Generated) -> dict[tuple[str, int], dict[str, float]]:
    """Return the law of response times on a quiet system by operation and request size, if there is a sampler."""
    preset = preset_named(made.preset)
    law, laws = preset.law, {}
    for op in ("read", "write") if preset.sampler_seconds else ():
        for size in SIZES:
            mean = mean_response_seconds(law, size, op)
            laws[op, size] = {
                "tail_ratio": law.tail_ratio,
                "pivot_seconds": mean * (1 + law.pivot_sds * law.sd_ratio),
                "alpha": law.alpha,
            }
    return laws


def planted_scans(made: Generated) -> list[tuple[int, int]]:
    """Return the number of files, and their bytes, at the start and at the end."""
    preset = for_days(preset_named(made.preset), made.days)
    contents = make_contents(preset, make_programs(preset, made.seed), made.seed)
    return [(len(content.files), int(content.files["size"].sum())) for content in contents]


def planted_numbers(made: Generated) -> dict[str, float]:
    """Run the first file system of the facility again, and return the planted numbers of its servers by name."""
    preset = for_days(preset_named(made.preset), made.days)
    world = World(preset, made.seed)
    planted = PlantedServers(preset.osts)
    for window in world.windows():
        planted.add(observe(window.readings, preset, world.resources, world.incidents, made.seed))
    return planted.values()


class PlantedServers:
    """Totals, and one number per minute, of what the servers moved."""

    def __init__(self, osts: int) -> None:
        self._minutes: dict[str, list[Floats]] = {"read": [], "write": []}
        self._by_target = {"read": np.zeros(osts), "write": np.zeros(osts)}
        self._operations = np.zeros(len(OPERATIONS))
        self._degrees: dict[str, list[int]] = {"read": [], "write": []}
        self._looked = 0

    def add(self, observed: Readings) -> None:
        """Add a window."""
        per_minute = 60 // observed.step_seconds
        for verb, values in (("read", observed.read_bytes), ("write", observed.write_bytes)):
            minutes = values.reshape(-1, per_minute, values.shape[1]).sum(axis=1)
            self._minutes[verb].append(minutes.sum(axis=1))
            self._by_target[verb] += values.sum(axis=0)
            # A sample of the minutes is enough for the mean.
            for row in minutes[:: max(1, len(minutes) // 100)] if self._looked < _PARALLELISM_MINUTES else ():
                self._degrees[verb] += degrees(row)
        self._looked += 100
        self._operations += observed.operations.sum(axis=0)

    def values(self) -> dict[str, float]:
        """Return the planted numbers by name."""
        found: dict[str, float] = {}
        for verb in ("read", "write"):
            minutes = np.concatenate(self._minutes[verb])
            found[f"{verb}_bytes"] = float(minutes.sum())
            found[f"{verb}_bytes_per_minute"] = float(minutes.mean())
            found[f"{verb}_cov_percent"] = float(minutes.std(ddof=1) / minutes.mean() * 100)
            length, between = high_phases(minutes)
            found[f"{verb}_high_phase_minutes"] = length
            found[f"{verb}_high_phase_distance_minutes"] = between
            for window in (1, 5, 25):
                sums = minutes[: len(minutes) // window * window].reshape(-1, window).sum(axis=1)
                found[f"{verb}_autocorrelation_{window}min"] = float(np.corrcoef(sums[:-1], sums[1:])[0, 1])
            target = self._by_target[verb]
            found[f"{verb}_target_max_over_min"] = float(target.max() / target.min())
            if self._degrees[verb]:
                found[f"{verb}_parallelism_mean"] = float(np.mean(self._degrees[verb]))
        for name, amount in zip(OPERATIONS, self._operations.tolist(), strict=True):
            found[f"{name}_ops"] = amount
        return found


def high_phases(minutes: Floats) -> tuple[float, float]:
    """Return mean length, and mean time between starts, of maximal runs of minutes at or above the upper quartile."""
    high = minutes >= np.percentile(minutes, 75)
    starts: list[int] = []
    lengths: list[int] = []
    for place, is_high in enumerate(high.tolist()):
        if is_high and (place == 0 or not high[place - 1]):
            starts.append(place)
            lengths.append(0)
        if is_high:
            lengths[-1] += 1
    return float(np.mean(lengths)), float(np.mean(np.diff(starts))) if len(starts) > 1 else float("nan")


def degrees(row: Floats) -> list[int]:
    """Return sizes of groups of targets whose activity is within 5% of the smallest, from the smallest on."""
    found: list[int] = []
    least = None
    for value in sorted(v for v in row.tolist() if v > 0):
        if least is not None and value - least < _TOLERANCE * least:
            found[-1] += 1
        else:
            found.append(1)
            least = value
    return found
