"""Does a run's I/O time follow the system's activity (mad17)? Groups of similar runs, and one run on the system's time
line; coefficients and curves are in modules of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.contracts import Param, Params, Study, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import format_bytes, format_seconds
from ioweather.core.words import names_of, pairs_of
from ioweather.facts.runs import LEAST_RUNS
from ioweather.facts.system_activity import io_steps
from ioweather.stats.estimates import known, mean_estimate, number, plain
from ioweather.stats.summary_tables import shaded, thin, timeline_table
from ioweather.studies.mad17.curves import ERROR, curve_exhibits
from ioweather.studies.mad17.run_groups import HALF_WIDTH_SD, NEEDS, PARAMS, TIME, AssociationData, association_data
from ioweather.studies.mad17.tables import table_exhibits

_MOST_GROUPS: Final = 12
_SHADES: Final = 20
_MOST_FILES: Final = 800
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


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    """Make the exhibits of one group of similar runs."""
    found = association_data(data, facility, params)
    if found is None:
        return
    row = _chosen(found)
    if row is not None:
        yield _time_line(found, row)
        yield _files(found, row)
    yield _groups(found)
    yield _times(found)
    yield _histograms(found)
    yield from table_exhibits(found)
    yield from curve_exhibits(found)


def _chosen(data: AssociationData) -> int | None:
    """Return the row of the chosen run, else of the slowest complete one of the group."""
    asked = data.params.get("job")
    if asked:
        text = str(asked)
        ids = [str(value) for value in data.runs.ints("job_id").tolist()]
        digests = [str(value) for value in data.runs.frame.text("log_digest").tolist()]
        found = [
            i
            for i, (job, digest) in enumerate(zip(ids, digests, strict=True))
            if job == text or digest.startswith(text)
        ]
        if not found:
            raise UsageError(f"There is no run {text!r}.", hint="Give a job id or the beginning of a log's digest.")
        return found[0]
    members = data.members(data.asked)
    times = data.of("io_seconds")[members]
    return int(members[np.nanargmax(times)]) if len(members) and np.isfinite(times).any() else None


def _label(data: AssociationData, row: int) -> str:
    return f"job {int(data.runs.ints('job_id')[row])} of {data.name(int(data.groups.of_run[row]))}"


@exhibit("mad17.fig1")
def _time_line(data: AssociationData, row: int) -> Iterator[Piece]:
    grid = data.grid

    def of(column: str) -> float:
        return float(data.of(column)[row])

    start, end = (int(data.runs.ints(name)[row]) for name in ("start_ns", "end_ns"))
    margin = max(5 * grid.step_ns, (end - start) // 4)
    first, last = ((t - grid.start_ns) // grid.step_ns for t in (start - margin, end + margin))
    piece = slice(max(0, first), max(0, last + 1))
    times = grid.stamp(np.arange(grid.count)[piece])
    rates = {verb: grid.values[f"{verb}_bytes"][piece] / grid.step_seconds for verb in ("read", "write")}
    stretches = io_steps(grid, data.spans.of_runs(np.array([row])))
    ends = list(zip(stretches.first, stretches.last, strict=True))[:_SHADES]
    shades = (shaded(int(grid.stamp(a)), int(grid.stamp(b + 1)), "its I/O: PsiD") for a, b in ends)
    yield Chart.of(
        "timeline",
        timeline_table("throughput", times, rates, "system throughput", "bytes_per_s"),
        "x=time y=value series",
        f"The system while {_label(data, row)} ran",
        references=(shaded(start, end, "the run: Psi"), *shades),
    )
    for verb in ("read", "write"):
        letter, own, value = verb[0].upper(), of(f"own_{verb}_bytes"), of(f"psid_{verb}_bytes")
        yield plain(f"Psi_{letter}", of(f"psi_{verb}_bytes"), "bytes", method="Eq. 2")
        low, high = (of(f"others_io_{side}_{verb}_bytes") + own for side in ("low", "high"))
        name, method = f"PsiD_{letter}", "Eq. 4, ends of the first and last step"
        if np.isfinite(value):
            yield Estimate(name, value, "bytes", low, high, 1.0, method=method)
        else:
            yield Estimate(name, None, "bytes", method=method)
        yield plain(f"own_{verb}", own, "bytes", method="the log")
    yield plain("D_D", of("d_d_seconds"), "seconds", method="Eq. 5")
    yield plain("D", of("io_seconds"), "seconds", method="Eq. 1")
    state = data.system.text("state").tolist()[row]
    if state == "complete":
        moved = of("psi_read_bytes") + of("psi_write_bytes")
        share = f"{(of('own_read_bytes') + of('own_write_bytes')) / moved:.0%}" if moved > 0 else "none"
        yield Finding(
            f"In its {format_seconds(of('run_seconds'))} the system moved {format_bytes(moved)}; {share} of that was "
            f"the run's own. Its I/O touched {format_seconds(of('d_d_seconds'))} of sampling intervals.",
            name="volume_during_run",
        )
    else:
        yield Finding(f"The system was not sampled all through this run ({state}).", "undecided", name="not_sampled")
    yield (
        "Amounts within the first and the last step are taken as even over the step (mad17 Eq. 2 to 4); the ends "
        "of an interval are what all or none of it would give."
    )
    yield data.caveats, data.coverage


@exhibit("mad17.fig3")
def _files(data: AssociationData, row: int) -> Iterator[Piece]:
    spans, name = data.spans.of_runs(np.array([row])), data.name(int(data.groups.of_run[row]))
    start = int(data.runs.ints("start_ns")[row])
    rows: list[tuple[Cell, ...]] = []
    for verb, word, reading in (("read", "read", True), ("write", "written", False)):
        chosen = np.flatnonzero(spans.read == reading)
        order = chosen[np.argsort(spans.first_ns[chosen], kind="stable")]
        yield plain(f"files_{word}[{name}]", len(order), "count")
        first, last = ((t[order] - start) / 1e9 for t in (spans.first_ns, spans.last_ns))
        for i in thin(last - first, _MOST_FILES // 2).tolist():
            rows += [(i + 1, f"first {verb}", float(first[i])), (i + 1, f"last {verb}", float(last[i]))]
    for letter in ("R", "W"):
        longest = data.of(f"d_f_{letter.lower()}_seconds")[row]
        yield plain(f"D_F_{letter}[{name}]", longest, "seconds", method="Eq. 6")
    if rows:
        columns = "file: file, by first access [count]; series [text]; time: since the start of the run [seconds]"
        title = f"First and last access of each file: {_label(data, row)}"
        yield Chart.of("scatter", ResultTable.of("files", columns, rows), "x=time y=file series", title)
        span = spans.median_span_seconds()
        longer, sharper = ("longer", "is hardly") if span / data.grid.step_seconds >= 1 else ("shorter", "can be")
        yield Finding(
            f"The median file is accessed over {format_seconds(span)}, {longer} than a sampling interval: PsiD "
            f"{sharper} sharper than Psi.",
            name="access_times",
        )
    else:
        yield Finding("This run read and wrote nothing.", "undecided", name="no_io")
    yield data.caveats, data.coverage


@exhibit("mad17.table1")
def _groups(data: AssociationData) -> Iterator[Piece]:
    listed = sorted(dict.fromkeys([data.asked, *range(min(_MOST_GROUPS, len(data.groups.names)))]))
    rows: list[tuple[Cell, ...]] = []
    for group in listed:
        members, complete, name = data.groups.members(group), len(data.members(group)), data.name(group)
        cells = [float(np.median(data.runs.floats(column)[members])) for _, column, _ in _COUNTS]
        on_mounts: list[Cell] = [None, None, None]
        if data.mounts_known:
            files = number(np.nanmedian(data.of("monitored_file_count")[members]))
            own = (float(np.median(data.of(f"own_{verb}_bytes")[members])) for verb in ("read", "write"))
            on_mounts = [files, *own]
        rows.append((name, *cells, len(members), complete, *on_mounts))
        if group in data.shown:
            for (what, _, unit), value in zip(_COUNTS, cells, strict=True):
                yield plain(f"{what}[{name}]", value, unit, n=len(members), method="median of the group")
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
    yield ResultTable("groups", columns, tuple(rows), f"The {len(rows)} largest groups, medians")
    large = data.groups.large
    of_all = int(data.groups.sizes[large].sum()) / max(1, data.runs.rows)
    text = f"{len(large)} groups have {LEAST_RUNS} or more runs; they hold {of_all:.0%} of all runs."
    yield Finding(text, name="group_sizes")
    if not data.mounts_known:
        yield (
            f"Where {data.params['filesystem']} is mounted is not known: set `mounts` in facility.toml to tell files "
            "on monitored file systems from others."
        )
    yield data.caveats, data.coverage


@exhibit("mad17.table2")
def _times(data: AssociationData) -> Iterator[Piece]:
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
            yield mean
            yield plain(f"{symbol}_sd[{name}]", deviation, "seconds", n=len(values), method="standard deviation")
            cells += [mean.value, deviation]
        rows.append(tuple(cells))
        times = known(data.of("io_seconds")[members])
        if len(times) > 1 and times.mean():
            low, high, spread = float(times.min()), float(times.max()), times.std(ddof=1) / times.mean()
            yield Finding(
                f"{name}: the same I/O took {format_seconds(low)} to {format_seconds(high)} (standard deviation "
                f"{spread:.0%} of the mean, n {len(times)}).",
                name="time_range",
            )
    columns = "; ".join(f"{symbol}: {symbol} [seconds]; {symbol}_sd: {symbol} sd [seconds]" for symbol in TIMES)
    yield ResultTable.of("times", f"group [text]; runs [count]; {columns}", rows)
    yield f"{_SHARED_TIMES[definition]} --set d_s=... takes one of {', '.join(_SHARED_TIMES)}."
    yield data.span_caveat(data.members(data.asked)), data.caveats, data.coverage


@exhibit("mad17.fig2")
def _histograms(data: AssociationData) -> Iterator[Piece]:
    yield plain("interval_half_width_sd", HALF_WIDTH_SD, "", method="as the paper has it")
    step = data.grid.step_seconds
    for group in data.shown:
        values, name = known(data.of("d_d_seconds")[data.members(group)]), data.name(group)
        if not len(values):
            continue
        mean, deviation = float(values.mean()), float(values.std())
        low, high = mean - HALF_WIDTH_SD * deviation, mean + HALF_WIDTH_SD * deviation
        # Bins of whole steps, as D_D comes in them; at most 40.
        first, last = np.floor(values.min() / step) - 0.5, np.floor(values.max() / step) + 0.5
        width = max(1.0, np.ceil((last - first) / 40))
        edges = np.arange(first, last + width, width) * step
        rows = zip(edges[:-1].tolist(), edges[1:].tolist(), np.histogram(values, edges)[0].tolist(), strict=True)
        binned = ResultTable.of("histogram", f"low: {TIME} [seconds]; high [seconds]; runs [count]", rows)
        lines = tuple(Reference("x", x, word) for x, word in ((mean, "mean"), (low, "-1.645 sd"), (high, "+1.645 sd")))
        yield Chart.of("histogram", binned, "low high y=runs", f"D_D of {name}", references=lines)
        outside = float(np.mean((values < low) | (values > high)))
        skew = float(np.mean(((values - mean) / deviation) ** 3)) if deviation else None
        yield plain(f"skewness[{name}]", skew, "", n=len(values), method="third standardised moment")
        method = "share outside mean ± 1.645 sd"
        yield plain(f"outside_ratio[{name}]", outside, "ratio", n=len(values), method=method)
        side = "a long tail of slow runs" if (skew or 0) > 0.5 else "no long tail of slow runs"
        text = f"{name}: skewness {skew or 0:.2f}, {side}; {outside:.0%} lie outside the lines."
        yield Finding(text, name="skewness")
    yield "The lines at mean ± 1.645 sd hold 90% of the runs only if times are normal."
    yield data.caveats, data.coverage


STUDY = Study(
    name="association",
    exhibits=names_of("""
        mad17.fig1 mad17.table1 mad17.table2 mad17.fig2 mad17.fig3 mad17.table3 mad17.table4 mad17.monitored
        mad17.fig6 mad17.fig7
    """),
    needs=NEEDS,
    run=run,
    params=(*PARAMS, SHARED_TIME, ERROR),
    too_few="no interval of the period has samples of all servers that can be used, or no run has a log",
)
