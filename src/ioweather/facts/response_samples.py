"""Samples of response time (don15 section 4): all times of one file system, mode, operation and request size.

The paper's *sample* holds a read and a write series; fits are per series, so here each operation is its own sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices, Ints
from ioweather.core.contracts import Need, Param, Params, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Coverage
from ioweather.core.units import MIB, NS, TARGET_PROBE_BYTES, format_bytes
from ioweather.core.words import names_of
from ioweather.facts.incidents import EVENT_COLUMNS

# Data requests; what metadata operations take says nothing about a request of some size.
OPERATIONS: Final = ("read", "write", "write_sync")
NEED: Final = Need(
    "responses",
    "responses",
    columns=names_of("start_ns host target op request_bytes mode duration_ns system component status run_id"),
    where={"op": OPERATIONS},
)
INCIDENTS: Final = Need(
    "events", "events", EVENT_COLUMNS, where={"kind": "component_health"}, optional=True, any_time=True
)
FILESYSTEM: Final = Param("filesystem", "one file system; all of them where it is not given")
# The probe's requests (kun19: 1 MB) are no sampler's: those are whole pages, and their OST is known.
_PAGE: Final = 4096
PROBE: Final = Param("probe", "count the probe's requests of 1 MB among the samples", kind="flag", default=False)
TOO_FEW: Final = (
    "no request size has 100 response times of one mode by `ioweather probe --sizes` (the probe's are not counted); "
    "--set minimum=N is content with fewer"
)
MINIMUM: Final = Param("minimum", "fewest response times that make a sample", kind="int", default=100)


REQUEST_SIZE: Final = Param(
    "request_size", "request size of the sample that is shown (default: the commonest)", kind="size"
)


@dataclass(frozen=True, eq=False)
class ResponseSample:
    """`rows` are positions in the frame, in time order."""

    filesystem: str
    mode: str
    op: str
    request_bytes: int
    rows: Indices
    frame: Frame = field(repr=False)

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def seconds(self) -> Floats:
        return self.frame.ints("duration_ns")[self.rows] / NS

    @property
    def start_ns(self) -> Ints:
        return np.asarray(self.frame.array("start_ns")[self.rows], np.int64)

    @property
    def place(self) -> str:
        """Where and how, in the manner of the paper's Edison-NoCache."""
        return f"{self.filesystem}-{self.mode}"

    @property
    def label(self) -> str:
        return f"{self.place} {self.op} {format_bytes(self.request_bytes)}"


@dataclass(frozen=True)
class Samples:
    """Samples large enough, in order; and what was left out, counted."""

    samples: tuple[ResponseSample, ...]
    coverage: tuple[Coverage, ...]

    def of_size(self, request_bytes: int) -> list[ResponseSample]:
        return [sample for sample in self.samples if sample.request_bytes == request_bytes]

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(sample.place for sample in self.samples))


def samples_of(data: StudyData, facility: Facility, params: Params) -> Samples:
    """Group the finished requests. Failed, pending and missed ones, and times of 0 or less, are counted, not used."""
    frame = data.frames[NEED.name]
    ok = frame.text("status").equals("ok")
    sized = frame.ints("request_bytes") > 0
    positive = frame.ints("duration_ns") > 0
    filesystem = canonical_filesystems(frame.text("system"), facility)
    wanted = np.ones(frame.rows, np.bool_)
    if params.get("filesystem"):
        wanted = filesystem.equals(str(params["filesystem"]))
    asked = frame.ints("request_bytes")
    probed = ((asked % _PAGE != 0) | (asked == TARGET_PROBE_BYTES)) & (not params.get("probe"))
    used = ok & positive & sized & wanted & ~probed
    samples = _grouped(frame, filesystem, np.flatnonzero(used))
    smallest = int(params["minimum"])
    large = tuple(sample for sample in samples if sample.n >= smallest)
    present = sum(sample.n for sample in large)
    excluded = {
        "not finished": int((wanted & ~ok).sum()),
        "no time, or a time of 0": int((wanted & ok & ~positive).sum()),
        "no size": int((wanted & ok & positive & ~sized).sum()),
        "by the probe": int((wanted & ok & positive & sized & probed).sum()),
        f"samples of fewer than {smallest}": sum(sample.n for sample in samples) - present,
    }
    counted = {reason: count for reason, count in excluded.items() if count}
    return Samples(large, (Coverage(int(wanted.sum()), present, "response times", counted),))


def canonical_filesystems(system: Text, facility: Facility) -> Text:
    """Raw system names to file systems, once per distinct name."""
    names = [facility.filesystem_of(name) for name in system.categories]
    distinct = tuple(dict.fromkeys(names))
    lookup = np.array([distinct.index(name) for name in names] + [-1], np.int32)
    return Text(lookup[system.codes], distinct)


def _grouped(frame: Frame, filesystem: Text, used: Indices) -> list[ResponseSample]:
    if not len(used):
        return []
    mode, op = frame.text("mode"), frame.text("op")
    keys: list[NDArray[Any]] = [
        np.asarray(frame.array("request_bytes"))[used],
        op.codes[used],
        mode.codes[used],
        filesystem.codes[used],
    ]
    order = np.lexsort([np.asarray(frame.array("start_ns"))[used], *keys])
    changes = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    samples = []
    for part in np.split(used[order], np.flatnonzero(changes) + 1):
        row = part[0]
        samples.append(
            ResponseSample(
                filesystem.categories[filesystem.codes[row]],
                mode.categories[mode.codes[row]],
                op.categories[op.codes[row]],
                int(frame.array("request_bytes")[row]),
                part,
                frame,
            )
        )
    return sorted(samples, key=lambda s: (s.filesystem, s.mode, s.op, s.request_bytes))


def shown_size(samples: Sequence[ResponseSample], params: Params) -> int:
    """The size asked for where there are samples of it, else the one with most times; the paper shows 64 MB, so of
    equals the nearest to it."""
    asked = params.get("request_size")
    counts: dict[int, int] = {}
    for sample in samples:
        counts[sample.request_bytes] = counts.get(sample.request_bytes, 0) + sample.n
    if asked is not None and int(asked) in counts:
        return int(asked)
    return max(counts, key=lambda size: (counts[size], -abs(size - 64 * MIB)))


def largest_place(samples: Sequence[ResponseSample]) -> tuple[str, str, str]:
    """File system, mode and operation with most request sizes, then most times; uncached before cached."""
    totals: dict[tuple[str, str, str], tuple[int, bool, int]] = {}
    for sample in samples:
        key = (sample.filesystem, sample.mode, sample.op)
        sizes, uncached, n = totals.get(key, (0, sample.mode == "nocache", 0))
        totals[key] = (sizes + 1, uncached, n + sample.n)
    return max(totals, key=lambda key: totals[key])
