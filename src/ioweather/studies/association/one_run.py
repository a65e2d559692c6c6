"""One run on the system's time line, and when its files were read and written (mad17 fig. 1, 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ioweather.core.errors import UsageError
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_seconds
from ioweather.derive.system.job_system import io_steps
from ioweather.studies.association.data import AssociationData
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.presenting import shaded, thin, timeline_table

_SHADES: Final = 20
_MOST_FILES: Final = 800


def job_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    row = _chosen(data)
    if row is None:
        return
    yield _time_line(data, row)
    yield _files(data, row)


def _chosen(data: AssociationData) -> int | None:
    """The run asked for, else the slowest complete one of the group."""
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
    start, end = (int(data.runs.ints(name)[row]) for name in ("start_ns", "end_ns"))
    margin = max(5 * grid.step_ns, (end - start) // 4)
    first, last = ((t - grid.start_ns) // grid.step_ns for t in (start - margin, end + margin))
    piece = slice(max(0, first), max(0, last + 1))
    times = grid.stamp(np.arange(grid.count)[piece])
    rates = {verb: grid.values[f"{verb}_bytes"][piece] / grid.step_seconds for verb in ("read", "write")}
    stretches = io_steps(grid, data.spans.of_runs(np.array([row])))
    shades = [
        shaded(int(grid.stamp(a)), int(grid.stamp(b + 1)), "its I/O: PsiD")
        for a, b in zip(stretches.first, stretches.last, strict=True)
    ]
    chart = Chart.of(
        "timeline",
        timeline_table("throughput", times, rates, "system throughput", "bytes_per_s"),
        "x=time y=value series",
        f"The system while {_label(data, row)} ran",
        references=(shaded(start, end, "the run: Psi"), *shades[:_SHADES]),
    )
    estimates = tuple(_volumes(data, row))
    yield chart, estimates, _volume_findings(data, row)
    yield (
        "Amounts within the first and the last step are taken as even over the step (mad17 Eq. 2 to 4); the ends "
        "of an interval are what all or none of it would give."
    )
    yield data.caveats, data.coverage


def _volumes(data: AssociationData, row: int) -> Iterator[Estimate]:
    for verb in ("read", "write"):
        letter = verb[0].upper()
        own = float(data.of(f"own_{verb}_bytes")[row])
        yield plain(f"Psi_{letter}", data.of(f"psi_{verb}_bytes")[row], "bytes", method="Eq. 2")
        low, high = (float(data.of(f"others_io_{side}_{verb}_bytes")[row]) + own for side in ("low", "high"))
        value = float(data.of(f"psid_{verb}_bytes")[row])
        known = np.isfinite(value)
        method = "Eq. 4, ends of the first and last step"
        known_bytes = Estimate(f"PsiD_{letter}", value, "bytes", low, high, 1.0, method=method)
        yield known_bytes if known else Estimate(known_bytes.name, None, "bytes", method=method)
        yield plain(f"own_{verb}", own, "bytes", method="the log")
    yield plain("D_D", data.of("d_d_seconds")[row], "seconds", method="Eq. 5")
    yield plain("D", data.of("io_seconds")[row], "seconds", method="Eq. 1")


def _volume_findings(data: AssociationData, row: int) -> Iterator[Finding]:
    state = data.system.text("state").tolist()[row]
    if state != "complete":
        yield Finding(f"The system was not sampled all through this run ({state}).", "undecided", name="not_sampled")
        return
    moved = float(data.of("psi_read_bytes")[row] + data.of("psi_write_bytes")[row])
    own = float(data.of("own_read_bytes")[row] + data.of("own_write_bytes")[row])
    length, during = float(data.of("run_seconds")[row]), float(data.of("d_d_seconds")[row])
    share = f"{own / moved:.0%}" if moved > 0 else "none"
    yield Finding(
        f"In its {format_seconds(length)} the system moved {format_bytes(moved)}; {share} of that was the run's own. "
        f"Its I/O touched {format_seconds(during)} of sampling intervals.",
        name="volume_during_run",
    )


@exhibit("mad17.fig3")
def _files(data: AssociationData, row: int) -> Iterator[Piece]:
    spans = data.spans.of_runs(np.array([row]))
    start = int(data.runs.ints("start_ns")[row])
    rows: list[tuple[Cell, ...]] = []
    counts: dict[str, int] = {}
    for verb, reading in (("read", True), ("write", False)):
        chosen = np.flatnonzero(spans.read == reading)
        order = chosen[np.argsort(spans.first_ns[chosen], kind="stable")]
        counts[verb] = len(order)
        first, last = ((t[order] - start) / 1e9 for t in (spans.first_ns, spans.last_ns))
        kept = thin(last - first, _MOST_FILES // 2)
        for i in kept.tolist():
            rows.append((i + 1, f"first {verb}", float(first[i])))
            rows.append((i + 1, f"last {verb}", float(last[i])))
    table = ResultTable.of(
        "files", "file: file, by first access [count]; series [text]; time: since the start of the run [seconds]", rows
    )
    chart = Chart.of(
        "scatter", table, "x=time y=file series", f"First and last access of each file: {_label(data, row)}"
    )
    name = data.name(int(data.groups.of_run[row]))
    longest = {letter: data.of(f"d_f_{letter.lower()}_seconds")[row] for letter in ("R", "W")}
    yield (
        plain(f"files_read[{name}]", counts["read"], "count"),
        plain(f"files_written[{name}]", counts["write"], "count"),
        *(plain(f"D_F_{letter}[{name}]", value, "seconds", method="Eq. 6") for letter, value in longest.items()),
    )
    ratio = spans.median_span_seconds() / data.grid.step_seconds
    fits = "shorter than" if ratio < 1 else "longer than"
    finding = Finding(
        f"The median file is accessed over {format_seconds(ratio * data.grid.step_seconds)}, {fits} a sampling "
        f"interval: PsiD {'can be' if ratio < 1 else 'is hardly'} sharper than Psi.",
        name="access_times",
    )
    yield (chart,) if rows else ()
    yield (finding,) if rows else (Finding("This run read and wrote nothing.", "undecided", name="no_io"),)
    yield data.caveats, data.coverage
