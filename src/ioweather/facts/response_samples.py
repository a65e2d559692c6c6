"""Samples of response time (don15 section 4), and head and tail fitted to them, with bootstrap replicates.

A sample has all times of one file system, mode, operation and request size. The paper's *sample* has a read and a write
series; fits are per series, so each operation is a sample here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Indices, Ints
from ioweather.core.contracts import Need, Param, Params, Spread, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame, Text
from ioweather.core.results import Coverage, Estimate
from ioweather.core.units import MIB, NS, TARGET_PROBE_BYTES, format_bytes
from ioweather.core.words import names_of
from ioweather.facts.incidents import EVENT_COLUMNS
from ioweather.stats.estimates import LEVEL
from ioweather.stats.families import Mixture
from ioweather.stats.mixture import (
    Combination,
    MixtureFit,
    Selection,
    bootstrap_intervals,
    fit_mixture,
    refitted,
)
from ioweather.stats.tail_fits import sample_of

# Requests with a size; metadata operations have none.
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
# Unlike the probe's requests (kun19: 1 MB), those of the sampler are whole pages, with a known OST.
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
        """File system and mode, like the paper's Edison-NoCache."""
        return f"{self.filesystem}-{self.mode}"

    @property
    def label(self) -> str:
        return f"{self.place} {self.op} {format_bytes(self.request_bytes)}"


@dataclass(frozen=True)
class Samples:
    """Samples that are large enough, in order, and counts of excluded times."""

    samples: tuple[ResponseSample, ...]
    coverage: tuple[Coverage, ...]

    def of_size(self, request_bytes: int) -> list[ResponseSample]:
        return [sample for sample in self.samples if sample.request_bytes == request_bytes]

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(sample.place for sample in self.samples))


def samples_of(data: StudyData, facility: Facility, params: Params) -> Samples:
    """Group the finished requests. Failed, pending and missed ones, and times of 0 or less, are only counted."""
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
    """Map raw system names to file systems."""
    names = [facility.filesystem_of(name) for name in system.categories]
    distinct = tuple(dict.fromkeys(names))
    lookup = np.array([distinct.index(name) for name in names] + [-1], np.int32)
    return Text(lookup[system.codes], distinct)


def _grouped(frame: Frame, filesystem: Text, used: Indices) -> list[ResponseSample]:
    if not len(used):
        return []
    mode, op = frame.text("mode"), frame.text("op")
    size = np.asarray(frame.array("request_bytes"))
    keys: list[NDArray[Any]] = [size[used], op.codes[used], mode.codes[used], filesystem.codes[used]]
    order = np.lexsort([np.asarray(frame.array("start_ns"))[used], *keys])
    changes = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    samples = []
    for part in np.split(used[order], np.flatnonzero(changes) + 1):
        name, kind, what = (text.categories[text.codes[part[0]]] for text in (filesystem, mode, op))
        samples.append(ResponseSample(name, kind, what, int(size[part[0]]), part, frame))
    return sorted(samples, key=lambda s: (s.filesystem, s.mode, s.op, s.request_bytes))


def shown_size(samples: Sequence[ResponseSample], params: Params) -> int:
    """Return the requested size if there are samples of it, else the one with most times; of ties the nearest to the
    paper's 64 MB."""
    asked = params.get("request_size")
    counts: dict[int, int] = {}
    for sample in samples:
        counts[sample.request_bytes] = counts.get(sample.request_bytes, 0) + sample.n
    if asked is not None and int(asked) in counts:
        return int(asked)
    return max(counts, key=lambda size: (counts[size], -abs(size - 64 * MIB)))


def largest_place(samples: Sequence[ResponseSample]) -> tuple[str, str, str]:
    """Return file system, mode and operation with most request sizes; of ties uncached ones, then most times."""
    totals: dict[tuple[str, str, str], tuple[int, bool, int]] = {}
    for sample in samples:
        key = (sample.filesystem, sample.mode, sample.op)
        sizes, uncached, n = totals.get(key, (0, sample.mode == "nocache", 0))
        totals[key] = (sizes + 1, uncached, n + sample.n)
    return max(totals, key=lambda key: totals[key])


COMBINATION: Final = Param(
    "combination",
    "how the distances of head and tail become one: weighted (by group size), sum or maximum",
    default="weighted",
)
REPLICATES: Final = Param(
    "replicates", "bootstrap replicates of each fit; 0 gives no intervals", kind="int", default=40
)

# Replicates per task of a worker. One of some thousand times costs about 10 ms, so a batch outweighs its transfer.
_BATCH: Final = 20

FAMILY_LABELS: Final = {
    "uniform": "Uniform",
    "normal": "Normal",
    "gamma": "Gamma",
    "cauchy": "Cauchy",
    "weibull": "Weibull",
    "lognormal": "LogNormal",
    "power_law": "Power Law",
    "exponential": "Exponential",
}


@dataclass(frozen=True, eq=False)
class FittedSample:
    """The best fit of a sample. `laws` are its distributions in bootstrap replicates drawn with `seed`; there may be
    none."""

    sample: ResponseSample
    fit: MixtureFit
    laws: tuple[Mixture, ...]
    seed: int

    @property
    def shares(self) -> Floats:
        """The tail's share in each replicate."""
        return np.array([law.tail_share for law in self.laws])

    @property
    def pair_label(self) -> str:
        best = self.fit.best
        return f"{FAMILY_LABELS[best.head.name]} and {FAMILY_LABELS[best.tail.name]}"


def fit_samples(
    samples: Sequence[ResponseSample], params: Params, select: Selection = "ks", spread: Spread = starmap
) -> tuple[list[FittedSample], list[str]]:
    """Fit all pairs of families to every sample; also return a sentence for each sample that cannot be split."""
    fits = list(spread(_fit, ((sample.seconds, params["combination"], select) for sample in samples)))
    split = [(seed, fit) for seed, fit in enumerate(fits) if isinstance(fit, MixtureFit)]
    batches = batches_of(int(params["replicates"]))
    orders = ((samples[seed].seconds, fit, batch, seed) for seed, fit in split for batch in batches)
    drawn = spread(_laws_again, orders)
    fitted = [
        FittedSample(samples[seed], fit, tuple(law for _ in batches for law in next(drawn)), seed)
        for seed, fit in split
    ]
    refused = [f"{sample.label}: {fit}." for sample, fit in zip(samples, fits, strict=True) if isinstance(fit, str)]
    return fitted, refused


def batches_of(replicates: int) -> list[range]:
    """Return batches of replicate numbers, one for each task of a worker."""
    return [range(first, min(first + _BATCH, replicates)) for first in range(0, replicates, _BATCH)]


def _fit(seconds: Floats, combination: Combination, select: Selection) -> MixtureFit | str:
    """Return the fit, or the reason why there is none."""
    try:
        return fit_mixture(seconds, combination=combination, select=select)
    except ValueError as error:
        return str(error)


def _laws_again(seconds: Floats, fit: MixtureFit, replicates: range, seed: int) -> list[Mixture]:
    sample = sample_of(seconds)
    drawn = (sample.resampled(np.random.default_rng([seed, number])) for number in replicates)
    return [refitted(again, fit).distribution for again in drawn]


def choices(fit: MixtureFit) -> str:
    """Return a caveat on choices that the paper leaves open."""
    return (
        f"Every distinct time with at least {fit.minimum_group} times on either side is a candidate pivot; ties at the "
        f"pivot belong to the head; tails are bounded below by the pivot; the distances of head and tail are combined "
        f"({fit.combination}). A tail that has become the power law under another name does not compete. Of the pairs "
        f"of families the best is that with the least {'distance' if fit.select == 'ks' else 'AIC'}."
    )


def spread_about(value: float, replicates: Floats) -> tuple[float, float]:
    """Return the interval of bootstrap replicates, scaled to be about the value itself.

    Resampled times have ties, which shift the result of the pivot search; the shift is an artefact of the bootstrap.
    """
    relative = np.quantile(replicates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)) / np.median(replicates)
    return value * float(relative[0]), value * float(relative[1])


def over_samples(estimate: Estimate) -> Estimate:
    """Reword the method of a mean over jobs for a mean over samples."""
    return replace(estimate, method=estimate.method.replace("jobs", "samples"))


def parameters_text(parameters: Mapping[str, float]) -> str:
    """Return the parameters of a distribution as text."""
    return ", ".join(f"{name} {value:.4g}" for name, value in parameters.items())


def parameter_estimates(item: FittedSample) -> tuple[Estimate, ...]:
    """Return the parameters of the fitted distribution, whose head ends at the pivot, with intervals.

    Intervals take several times as long as the fit, so they are computed only here.
    """
    fit, sample, replicates = item.fit, sample_of(item.sample.seconds), range(len(item.laws))
    intervals = bootstrap_intervals(sample, fit, replicates, seed=item.seed, level=LEVEL) if replicates else {}
    units = {"pivot": "seconds", "tail_share": "ratio", "head_location": "seconds", "head_scale": "seconds"}
    found = []
    for name, value in fit.distribution.parameters.items():
        interval = intervals.get(name)
        low, high, level = (interval.low, interval.high, interval.level) if interval else (None, None, None)
        missing = "no interval: a Cauchy head does not tell where it ends" if intervals else "no interval asked for"
        method = interval.method if interval else missing
        found.append(Estimate(name, value, units.get(name, ""), low, high, level, fit.n, method))
    return tuple(found)
