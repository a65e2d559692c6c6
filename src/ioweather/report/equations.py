"""Which equations make each exhibit. The notation is that of `methods`: `_{...}` and `^{...}` below and above the line.

Numbers in parentheses are the papers' own equation numbers.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Equation: TypeAlias = tuple[str, str]  # the equation, and what it is

_D: Final = ("D = D_{U,M} + D_{U,RW} + D_{S}", "I/O time: slowest rank on unique files, and shared files (mad17 1)")
_BANDWIDTH: Final = (
    "B = Σ(bytes read + written) / D / 2^{20} / N_{CN}",
    "MiB/s per allocated compute node (car11 II-D)",
)
_METADATA: Final = (
    "metadata share = Σ t_{meta} / Σ (t_{meta} + t_{read} + t_{write})", "over all processes; close counts as metadata"
)  # fmt: skip
_SHARE: Final = (
    "share_{class, bin} = n_{class, bin} / n_{bin}",
    "by jobs, bytes read and bytes written, in bins of job size",
)
_THROUGHPUT: Final = (
    "B_{i} = Σ_{servers} (read_{i} + written_{i}) / δ",
    "combined throughput of interval i of length δ",
)
_CDF: Final = ("F(x) = #{x_{i} ≤ x} / n", "share of values up to x")
_MEAN_OF_JOBS: Final = ("x_{project} = Σ_{jobs} x_{job} / n", "mean over jobs of per-job values, not a ratio of sums")
_COV: Final = ("CoV = 100 σ / μ", "coefficient of variation in percent (population σ)")
_LAG: Final = (
    "CC(k) = corr(X_{1…n−k}, Y_{1+k…n})", "of sums over windows of 1, 5 and 25 steps, k = 0 … 5 windows; Pearson"
)  # fmt: skip
_CLUSTER: Final = ("max − min < 0.05 min", "targets of one cluster; its size is a degree of parallelism")
_PHASE: Final = ("phase = maximal run of steps", "length, and time between the starts of two")
_PSI: Final = (
    "Ψ_{R} = δ Σ R_{i} − (T_{start} − T_{0}) R_{1} − (T_{n} − T_{end}) R_{n}",
    "bytes the system read while the run ran (2)",
)
_PSI_O: Final = (
    "ΨO_{R} = Σ RO_{i} − (T_{start} − T_{0}) / δ · RO_{1} − (T_{n} − T_{end}) / δ · RO_{n}",
    "operations of the system while the run ran (3)",
)
_PSI_D: Final = (
    "ΨD_{R} = δ Σ R^{D}_{i} − (T^{D}_{start} − T^{D}_{0}) R^{D}_{1} − (T^{D}_{m} − T^{D}_{end}) R^{D}_{m}",
    "the same over the m intervals with I/O of the run (4)",
)
_D_D: Final = ("D_{D} = m δ", "m: the sampling intervals with I/O of the run (5)")
_D_F: Final = (
    "D_{F,R} = max_{f} (last read end − first read start)",
    "the longest span of a file; writes likewise (6)",
)
_PEARSON: Final = ("r = Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)^{2} Σ (y − ȳ)^{2})", "Pearson; Spearman is the same of ranks")
_DCOR: Final = ("dCor^{2} = dCov^{2}(x, y) / √(dCov^{2}(x, x) dCov^{2}(y, y))", "distance correlation")
_MI: Final = ("√(1 − e^{−2I})", "mutual information I (Kraskov et al.) on the scale of a correlation")
_SLOWDOWN: Final = (
    "slowdown = t_{observed} / t_{expected}",
    "t_{expected}: the median of the whole period, unless facility.toml says otherwise",
)
_SKEW: Final = (
    "skewness = m_{3} / m_{2}^{3/2},  kurtosis = m_{4} / m_{2}^{2}",
    "m_{k}: central moments; Normal is (0, 3)",
)
_KS: Final = ("KS = max_{t} |F_{n}(t) − F(t)|", "distance of a fit by maximum likelihood from the sample")
_PIVOT: Final = (
    "pivot = argmin_{p} (n_{head} KS_{head} + n_{tail} KS_{tail}) / n",
    "head ≤ p: Normal, Cauchy; tail > p: five families",
)
_ORDER: Final = ("T_{R} = max(t_{1}, …, t_{n}) + ψ", "a transfer over n targets (don15 1)")
_ORDER_F: Final = ("F_{T}(t) = F_{S/n}(t − ψ)^{n}", "its distribution, for a transfer of S bytes in n parts")
_BAND: Final = ("f(log t) = density of log response time", "bands are its modes, borders the valleys between them")
_QUANTILE: Final = ("q_{p}: F(q_{p}) = p", "of the operations of an interval; 10% waited longer than q_{0.9}")
_CUMULATIVE: Final = ("C(t) = Σ_{i ≤ t} x_{i}", "sum since the start of the period")
_ASSOCIATION: Final = (_PEARSON, _DCOR, _MI)

EQUATIONS: Final[dict[str, tuple[Equation, ...]]] = {
    "car11.table1": (
        ("error = B_{ours} / B_{benchmark} − 1", "both in MiB/s, per run and direction"), _D, _BANDWIDTH,
    ),
    "car11.fig2": (_SHARE,),
    "car11.fig3": (
        ("unique: 1 rank,  partially shared: 2 … n − 1 ranks,  shared: n ranks", "classes of a file by ranks"), _SHARE,
    ),
    "car11.fig4": (("V_{project} = Σ_{jobs} bytes", "read and written apart"),),
    "car11.table2": (
        ("coverage = core-hours of instrumented jobs / core-hours of all jobs", "and the same by number of jobs"),
    ),
    "car11.fig5": (("(n_{processes}, n_{files})", "one point per application run"),),
    "car11.fig6": (_THROUGHPUT,),
    "car11.fig7": (_THROUGHPUT, _CDF, ("share = F(B_{peak} / 3)", "time below a third of the peak")),
    "car11.fig8": (_CDF, ("F_{without}(x) = (F n − F_{p} n_{p}) / (n − n_{p})", "without the project p")),
    "car11.table3": (
        ("growth = x_{2} / x_{1} − 1", "files and bytes of two scans"),
        ("x(t) = x_{1} + μ t + σ W(t)", "random walk with drift: when a number is reached"),
    ),
    "car11.overwrite": (
        ("share(a) = Σ bytes with now − mtime > a / Σ bytes", "a = 64 and 128 days"),
        ("new = files written that were absent or empty / files written", "where the log has the size at open"),
    ),
    "car11.fig9": (("h_{k} = mean over jobs of (accesses of bin k / accesses)", "Darshan's ten bins of access size"),),
    "car11.fig10": (_BANDWIDTH, _D),
    "car11.table4": (_BANDWIDTH, _METADATA, _MEAN_OF_JOBS),
    "car11.table5": (_BANDWIDTH, _METADATA),
    "car11.table6": (_BANDWIDTH,),
    "car11.fig11": (_D, _BANDWIDTH, _METADATA),
    "car11.volume": (
        ("read share = bytes read / (bytes read + written)", "per day"),
        ("min_{day} Σ w (s − s̄_{side})^{2}", "the day of a change: two levels, weighted by volume w"),
    ),
    "car11.ceiling": (("ceiling = min(node limit, file-system peak / N_{CN})", "from facility.toml"), _BANDWIDTH),
    "car11.projects": (_METADATA, _MEAN_OF_JOBS),
    "don15.table2": (("sample = all t of one (system, size, mode, operation)", "and their number"),),
    "don15.fig1": (("(start, t)", "one point per request, as measured"),),
    "don15.fig2": (("h_{k} = #{t in bin k}", "bins of equal width"),),
    "don15.singlefits": (("θ̂ = argmax_{θ} Σ log f(t_{i}; θ)", "maximum likelihood, eight families"), _KS),
    "don15.fig3": (_SKEW,),
    "don15.fig4": (_PIVOT, _KS),
    "don15.fig5": (("tail share = #{t > pivot} / n", "beside what a Normal or a Uniform would give"), _PIVOT),
    "don15.fig6": (_PIVOT, _KS),
    "don15.maxorder": (_ORDER, _ORDER_F),
    "kun19.fig1": (("(start, t)", "every operation of ten minutes"),),
    "kun19.bands": (_BAND,),
    "kun19.fig2": (
        _QUANTILE,
        ("H = 12 / (N (N + 1)) Σ R_{i}^{2} / n_{i} − 3 (N + 1)", "Kruskal-Wallis between hosts, R_{i}: rank sums"),
    ),
    "kun19.fig3": (_SLOWDOWN,),
    "kun19.fig4": (_QUANTILE,),
    "kun19.fig5": (_QUANTILE,),
    "kun19.fig6": (_SLOWDOWN,),
    "kun19.episodes": (_SLOWDOWN, ("episode = maximal run with slowdown ≥ 2", "start, peak, recovery")),
    "mad17.fig1": (_PSI, _PSI_D),
    "mad17.table1": (("group = same user, processes, files and bytes read and written", "runs that are alike"),),
    "mad17.table2": (_D, _D_D, _D_F),
    "mad17.fig2": (_D_D,),
    "mad17.fig3": (_D_F,),
    "mad17.table3": (_D_D, _PSI_D, *_ASSOCIATION),
    "mad17.table4": (_PSI_O, *_ASSOCIATION),
    "mad17.monitored": (("D_{I}, ΨI: D_{D} and ΨD of files on monitored mounts alone", ""), *_ASSOCIATION),
    "mad17.fig6": (("D̂(Ψ) = mean over trees of the leaf that holds Ψ", "random forest; out-of-bag R^{2}"),),
    "mad17.fig7": (
        ("f(Ψ, D) = 1/n Σ K_{H}(Ψ − Ψ_{i}, D − D_{i})", "Gaussian kernels, bandwidth H by Scott's rule"),
        ("F(D | Ψ) = 0.05, 0.5, 0.95", "conditional median and central 90%"),
    ),
    "mad17.fig9": (_D_D, ("δ_{k} = k δ, k = 1 … 20", "coarser sampling")),
    "mad17.fig10": (("δ_{k} = k δ, k = 1 … 20", "coarser sampling"), *_ASSOCIATION),
    "mad17.fig13": (("coverage = Σ bytes of logged runs / bytes of the servers", "per interval; runs spread evenly"),),
    "pat19.fig3": (_CUMULATIVE, ("ratio = C_{read} / C_{written}", "")),
    "pat19.fig4": (_CDF, _COV),
    "pat19.fig5": (_COV, ("V_{h} = mean over days of the volume of hour h", "local time")),
    "pat19.fig6": (_COV, ("V_{d} = mean over weeks of the volume of weekday d", "local time")),
    "pat19.fig7": (("x ≥ P_{75}", "steps of high activity"), _PHASE),
    "pat19.fig8": (("x < P_{25}", "steps of low activity"), _PHASE),
    "pat19.fig9": (_LAG,),
    "pat19.fig10": (("max / min of totals per OST", "and rank correlation of read and written"),),
    "pat19.fig11": (_CLUSTER, _CDF),
    "pat19.table1": (_CLUSTER, ("100 (W − R) / R", "clusters when writing against clusters when reading")),
    "pat19.sensitivity": (("max − min < ε min", "ε = 5% and 10%; steps of 1, 5 and 25 minutes"),),
    "pat19.fig12": (_LAG,),
    "pat19.fig13": (_CUMULATIVE, ("not closed = 1 − C_{close} / C_{open}", ""), _COV),
    "pat19.fig14": (_LAG,),
    "pat19.fig15": (("mean and max over time of the CPU load of a server", "sorted"),),
    "pat19.fig16": (("AC(k) = corr(X_{1…n−k}, X_{1+k…n})", "of window means, k = 0 … 5 windows"),),
    "pat19.observations": (_COV, _LAG, _CLUSTER),
}  # fmt: skip
