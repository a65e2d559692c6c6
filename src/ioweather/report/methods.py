"""What each paper computes, in a few sentences and with its equations, for the reader of a report.

`_{...}` and `^{...}` in an equation are set below and above the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

_RAISED: Final = re.compile(r"([_^])\{([^}]*)\}")


@dataclass(frozen=True)
class Method:
    text: str
    equations: tuple[tuple[str, str], ...] = ()  # the equation, and what it is


METHODS: Final[dict[str, Method]] = {
    "car11": Method(
        "A job's I/O comes from its Darshan log. Its bytes over its I/O time, per allocated node, is its performance. "
        "The throughput of the servers is summed per interval; the share of time below a third of the peak says how "
        "bursty it is. Scans of the file systems give sizes, ages and growth. The cost of metadata includes close, "
        "where file systems flush.",
        (
            ("B = Σ(bytes read + written) / D / 2^{20} / N_{CN}", "performance in MiB/s per compute node (II-D)"),
            ("metadata share = Σ t_{meta} / Σ (t_{meta} + t_{read} + t_{write})", "over all processes (Table IV)"),
        ),
    ),
    "don15": Method(
        "Response times are sampled by request size, with and without the cache. Each sample is split at a pivot into "
        "a head and a tail; the pivot is the one with the least Kolmogorov-Smirnov distance of both together. The "
        "head is fitted with Normal and Cauchy, the tail with Power Law, Exponential, LogNormal, Weibull and Gamma, by "
        "maximum likelihood. A striped transfer waits for its slowest part.",
        (
            ("T_{R} = max(t_{1}, …, t_{n}) + ψ", "a transfer over n targets"),
            ("F_{T}(t) = F_{S/n}(t − ψ)^{n}", "its distribution, for a transfer of S bytes"),
        ),
    ),
    "kun19": Method(
        "A probe times a read and a write of 1 MB at random places of a large file, and create, stat, read and delete "
        "of small files, once a second. The usual time of an operation is the median of all of them on that file "
        "system. Intervals are reduced to mean, median, quantiles and maximum; below 1 is faster than usual.",
        (("slowdown = t_{observed} / t_{expected}", "t_{expected}: the median of the whole period"),),
    ),
    "mad17": Method(
        "The I/O time of a run is set beside what the whole system moved while it ran. Runs of one group do the same "
        "I/O, so what differs between them is the system. Association is measured by Pearson, Spearman, distance "
        "correlation and mutual information, each with an interval; runs moved in time show what chance alone gives.",
        (
            ("D = D_{U,M} + D_{U,RW} + D_{S}", "I/O time of a run: slowest rank on unique files, and shared files (1)"),
            (
                "Ψ_{R} = δ Σ R_{i} − (T_{start} − T_{0}) R_{1} − (T_{n} − T_{end}) R_{n}",
                "bytes the system read while the run ran (2)",
            ),
            ("D_{D} = m δ", "m: the sampling intervals with I/O of the run (5)"),
        ),
    ),
    "pat19": Method(
        "Samples of every target and server are summed to one minute. A minute at or above the 75th percentile is "
        "high, one below the 25th low; a maximal run of such minutes is a phase. Targets whose activity lies within 5% "
        "of each other work together: their number is the degree of parallelism. Correlations are of sums over "
        "windows of 1, 5 and 25 minutes, at lags of 0 to 5 windows.",
        (
            ("CoV = 100 σ / μ", "coefficient of variation in percent"),
            ("CC(k) = corr(X_{1…n−k}, Y_{1+k…n})", "correlation at a lag of k windows"),
            ("max − min < 0.05 min", "targets of one cluster"),
        ),
    ),
}


def equation_html(text: str) -> str:
    """The equation as markup."""
    marks = {"_": "sub", "^": "sup"}
    return _RAISED.sub(lambda m: f"<{marks[m[1]]}>{m[2]}</{marks[m[1]]}>", escape(text))
