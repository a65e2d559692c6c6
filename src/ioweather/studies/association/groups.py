"""The groups of similar runs (mad17 IV): what they are, how long their I/O takes, how it is distributed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Param
from ioweather.core.errors import UsageError
from ioweather.core.results import (
    Cell,
    Chart,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import format_seconds
from ioweather.core.words import pairs_of
from ioweather.derive.jobs.groups import LEAST_RUNS
from ioweather.studies.association.data import TIME, AssociationData
from ioweather.studies.shared.intervals import number, plain
from ioweather.studies.shared.job_estimates import known, mean_estimate

_MOST_GROUPS: Final = 12
HALF_WIDTH_SD: Final = 1.645  # 90% of a normal distribution, as mad17 draws it
# "D_S" is one of three, by the parameter.
TIMES: Final = pairs_of("""
    D_U_M=d_u_m_seconds D_U_RW=d_u_rw_seconds D_S=d_s_{}_seconds D_D=d_d_seconds D_F_R=d_f_r_seconds
    D_F_W=d_f_w_seconds D_J=run_seconds
""")
_SHARED_TIMES: Final = {
    "span": "D_S is the span from the first open of any shared file to the last I/O on any, as in the paper.",
    "per_file": "D_S is that span of each shared file, summed (car11).",
    "slowest": "D_S is the slowest rank's time on each shared file, summed; newer logs have it.",
}
_SHARED_HELP = "time on shared files in mad17.table2: span (as in the paper), per_file or slowest"
SHARED_TIME: Final = Param("d_s", _SHARED_HELP, default="span", choices=tuple(_SHARED_TIMES))
_COUNTS: Final = (
    ("processes", "nprocs", "count"),
    ("unique_files", "unique_file_count", "count"),
    ("shared_files", "shared_file_count", "count"),
    ("read", "read_bytes", "bytes"),
    ("written", "write_bytes", "bytes"),
)


def group_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    yield _table1(data)
    yield _table2(data)
    yield _histograms(data)


@exhibit("mad17.table1")
def _table1(data: AssociationData) -> Iterator[Piece]:
    listed = sorted(dict.fromkeys([data.asked, *range(min(_MOST_GROUPS, len(data.groups.names)))]))
    rows: list[tuple[Cell, ...]] = []
    for group in listed:
        members = data.groups.members(group)
        complete = len(data.members(group))
        name = data.name(group)
        cells = [float(np.median(data.runs.floats(column)[members])) for _, column, _ in _COUNTS]
        files = number(np.nanmedian(data.of("monitored_file_count")[members])) if data.mounts_known else None
        read, written = (
            float(np.median(data.of(f"own_{verb}_bytes")[members])) if data.mounts_known else None
            for verb in ("read", "write")
        )
        rows.append((name, *cells, len(members), complete, files, read, written))
        if group in data.shown:
            yield [
                plain(f"{what}[{name}]", value, unit, n=len(members), method="median of the group")
                for (what, _, unit), value in zip(_COUNTS, cells, strict=True)
            ]
            yield plain(f"runs[{name}]", complete, "count")
    columns = (
        ResultColumn("group", "", "text"),
        *(ResultColumn(name, "", unit) for name, _, unit in _COUNTS),
        *columns_of(
            "runs [count]; monitored_runs: runs with samples [count]; "
            "files_monitored: files on monitored mounts [count]; read_monitored: read there [bytes]; "
            "written_monitored: written there [bytes]"
        ),
    )
    large = len(data.groups.large)
    of_all = int(data.groups.sizes[data.groups.large].sum()) / max(1, data.runs.rows)
    yield Finding(
        f"{large} groups have {LEAST_RUNS} or more runs; they hold {of_all:.0%} of all runs.", name="group_sizes"
    )
    yield ResultTable("groups", columns, tuple(rows), f"The {len(rows)} largest groups, medians"), _mount_caveat(data)
    yield data.caveats, data.coverage


def _mount_caveat(data: AssociationData) -> tuple[str, ...]:
    if data.mounts_known:
        return ()
    return (
        f"Where {data.params['filesystem']} is mounted is not known: set `mounts` in facility.toml to tell files on "
        "monitored file systems from others.",
    )


@exhibit("mad17.table2")
def _table2(data: AssociationData) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    definition = str(data.params.get("d_s") or "span")
    if definition not in _SHARED_TIMES:
        raise UsageError(f"There is no D_S {definition!r}.", hint=f"There are: {', '.join(_SHARED_TIMES)}.")
    for group in data.shown:
        members, name = data.members(group), data.name(group)
        cells: list[Cell] = [name, len(members)]
        for symbol, column in TIMES.items():
            values = known(data.of(column.format(definition))[members])
            deviation = float(values.std(ddof=1)) if len(values) > 1 else None
            mean = mean_estimate(f"{symbol}_mean[{name}]", values, "seconds")
            yield [
                mean,
                plain(f"{symbol}_sd[{name}]", deviation, "seconds", n=len(values), method="standard deviation"),
            ]
            cells += [mean.value, deviation]
        rows.append(tuple(cells))
    columns = [ResultColumn("group", "", "text"), ResultColumn("runs", "", "count")]
    for symbol in TIMES:
        columns += [ResultColumn(symbol, symbol, "seconds"), ResultColumn(f"{symbol}_sd", f"{symbol} sd", "seconds")]
    yield ResultTable("times", tuple(columns), tuple(rows)), _time_findings(data)
    yield f"{_SHARED_TIMES[definition]} --set d_s=... takes one of {', '.join(_SHARED_TIMES)}."
    yield data.span_caveat(data.members(data.asked)), data.caveats, data.coverage


def _time_findings(data: AssociationData) -> Iterator[Finding]:
    for group in data.shown:
        times = known(data.of("io_seconds")[data.members(group)])
        if len(times) < 2 or not times.mean():
            continue
        spread = times.std(ddof=1) / times.mean()
        yield Finding(
            f"{data.name(group)}: the same I/O took {format_seconds(float(times.min()))} to "
            f"{format_seconds(float(times.max()))} (standard deviation {spread:.0%} of the mean, n {len(times)}).",
            name="time_range",
        )


@exhibit("mad17.fig2")
def _histograms(data: AssociationData) -> Iterator[Piece]:
    charts, findings = [], []
    yield plain("interval_half_width_sd", HALF_WIDTH_SD, "", method="as the paper has it")
    for group in data.shown:
        values, name = known(data.of("d_d_seconds")[data.members(group)]), data.name(group)
        if not len(values):
            continue
        mean, deviation = float(values.mean()), float(values.std())
        low, high = mean - HALF_WIDTH_SD * deviation, mean + HALF_WIDTH_SD * deviation
        charts.append(
            Chart.of(
                "histogram",
                _histogram(values, data.grid.step_seconds),
                "low high y=runs",
                f"D_D of {name}",
                references=(
                    Reference("x", mean, "mean"),
                    Reference("x", low, "-1.645 sd"),
                    Reference("x", high, "+1.645 sd"),
                ),
            )
        )
        outside = float(np.mean((values < low) | (values > high)))
        skew = float(np.mean(((values - mean) / deviation) ** 3)) if deviation else None
        yield [
            plain(f"skewness[{name}]", skew, "", n=len(values), method="third standardised moment"),
            plain(f"outside_ratio[{name}]", outside, "ratio", n=len(values), method="share outside mean ± 1.645 sd"),
        ]
        side = "a long tail of slow runs" if (skew or 0) > 0.5 else "no long tail of slow runs"
        findings.append(
            Finding(f"{name}: skewness {skew or 0:.2f}, {side}; {outside:.0%} lie outside the lines.", name="skewness")
        )
    yield charts, findings, "The lines at mean ± 1.645 sd hold 90% of the runs only if times are normal."
    yield data.caveats, data.coverage


def _histogram(values: Floats, step: float) -> ResultTable:
    """Bins of whole steps, as D_D comes in them; at most 40."""
    low = np.floor(values.min() / step) - 0.5
    high = np.floor(values.max() / step) + 0.5
    width = max(1.0, np.ceil((high - low) / 40))
    edges = np.arange(low, high + width, width) * step
    counts, _ = np.histogram(values, edges)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return ResultTable.of("histogram", f"low: {TIME} [seconds]; high [seconds]; runs [count]", rows)
