"""Association of a run's I/O time with the system's activity (mad17 tables III and IV), with intervals and nulls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, ResultTable
from ioweather.core.units import HOUR_NS
from ioweather.derive.jobs.io_spans import own_bytes
from ioweather.derive.system.job_system import Stretches, io_ends, io_steps, volume
from ioweather.stats.dependence import (
    LEVEL,
    MIN_PAIRS,
    Association,
    ShiftNull,
    associate,
    best_moved_p,
    best_shift_p,
    coefficients,
    shift_null,
    spearman_change,
    time_shifts,
)
from ioweather.studies.association.data import IN_TIME_ORDER, MEASURES, SHARED_STEPS, AssociationData
from ioweather.studies.shared.intervals import number, plain
from ioweather.studies.shared.presenting import told_p

_SHIFTS: Final = 99
SURE: Final = 0.05
# What a coefficient is called; mad17 calls .55 strong, .2 to .35 mild. [ours]
STRONG: Final = 0.4
MILD: Final = 0.15
_WAYS: Final = ("read", "write")
BIASED: Final = (
    "Distance correlation and mutual information are never below 0 and lie above it by chance: read them with their p, "
    "the share of pairings shifted in time that reach them."
)


@dataclass(frozen=True, eq=False)
class Pairing:
    """One group, one direction: coefficients of the system's volume with the run's time, and beside them those of its
    rate; `nulls` with moved times."""

    group: str
    way: str
    volumes: Floats
    times: Floats
    found: dict[str, Association]
    rate: dict[str, float]
    nulls: dict[str, ShiftNull]


def table_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    by_volume = [_during_io(data, group, way, "psid", "d_d") for group in data.shown for way in _WAYS]
    yield _exhibit(
        data, "mad17.table3", by_volume, "D_D", "PsiD", (SHARED_STEPS, *data.span_caveat(data.members(data.asked)))
    )
    yield _metadata(data)
    yield _monitored(data, by_volume)


def _during_io(data: AssociationData, group: int, way: str, prefix: str, time: str) -> Pairing:
    rows = data.members(group)
    volumes, times = data.of(f"{prefix}_{way}_bytes")[rows], data.of(f"{time}_seconds")[rows]
    found = associate(volumes, times)
    rates = np.divide(volumes, times, out=np.full(len(rows), np.nan), where=times > 0)
    observed = {name: one.value for name, one in found.items()}
    moved = _moved_in_time(data, rows, f"{way}_bytes", monitored=prefix == "psii")
    nulls = shift_null(times, observed, moved)
    return Pairing(data.name(group), way, volumes, times, found, coefficients(rates, times), nulls)


def _moved_in_time(data: AssociationData, rows: Ints, metric: str, *, monitored: bool = False) -> Iterator[Floats]:
    """PsiD of the same runs moved by whole steps, all together, around the end of the period: the number of steps
    stays, and so does what neighbours in time have in common; what system and runs did to each other does not."""
    spans = data.spans.of_runs(rows)
    spans = spans.only_monitored() if monitored else spans
    stretches = io_steps(data.grid, spans)
    first, last = io_ends(spans)
    count, step = data.grid.count, data.grid.step_ns
    least = int(max(1, HOUR_NS // step))
    usable = stretches.steps > 0
    for shift in time_shifts(count, _SHIFTS, least=min(least, count // 10)).tolist():
        # A run goes around the end as a whole; one that would be cut there reaches outside and is left out.
        move = np.where(data.grid.closed(first) + shift >= count, shift - count, shift)
        here = Stretches(
            stretches.run, stretches.first + move[stretches.run], stretches.last + move[stretches.run], stretches.runs
        )
        yield volume(data.grid, metric, here, first + move * step, last + move * step, usable).value


def _exhibit(
    data: AssociationData, exhibit_id: str, pairs: list[Pairing], time: str, symbol: str, caveats: tuple[str, ...]
) -> Exhibit:
    table = _table(pairs)
    chart = Chart.of("matrix", _matrix(pairs), "x=measure y=pair value", f"Coefficients of {symbol} with {time}")
    return Exhibit(
        exhibit_id, tables=(table,), charts=(chart,) if pairs else (),
        estimates=(*(e for pair in pairs for e in _estimates(pair)), *(_all_groups(pairs, way) for way in _WAYS)),
        findings=tuple(in_words(pairs, time, symbol))
        or (Finding("No group has runs enough.", "undecided", name="no_groups"),),
        caveats=(*caveats, BIASED, IN_TIME_ORDER, *data.caveats), coverage=data.coverage,
    )  # fmt: skip


def _estimates(pair: Pairing) -> Iterator[Estimate]:
    for name, found in pair.found.items():
        level = LEVEL if found.low is not None else None
        named, interval = f"{name}_{pair.way}[{pair.group}]", (found.low, found.high, level)
        yield Estimate(named, number(found.value), "", *interval, found.n, found.method)


def _all_groups(pairs: list[Pairing], way: str) -> Estimate:
    """Spearman's coefficient of all groups together, by Fisher's z: what it has beyond runs that were moved in time,
    which share their steps with D_D as these do; without such, that of the rate, which a longer run does not raise."""
    known = []
    for pair in pairs:
        null, n = pair.nulls.get("spearman"), pair.found["spearman"].n
        rho = pair.found["spearman"].value if null else pair.rate.get("spearman", np.nan)
        if pair.way == way and n > MIN_PAIRS and np.isfinite(rho):
            beyond = np.arctanh(np.clip(rho, -0.999999, 0.999999)) - np.arctanh(null.median if null else 0.0)
            known.append((beyond, n - 3))
    name, n = f"spearman_{way}_all_groups", sum(weight + 3 for _, weight in known)
    if not known:
        return plain(name, None, "", n=0, method="no group has runs enough")
    weight = sum(weight for _, weight in known)
    z = float(sum(z * weight for z, weight in known)) / weight
    reach = 1.6449 * float(np.sqrt(1.06 / weight))
    low, high = float(np.tanh(z - reach)), float(np.tanh(z + reach))
    method = f"Fisher's z over {len(known)} groups, less that of runs moved in time (D_D), or of the rate (D_U_M)"
    return Estimate(name, float(np.tanh(z)), "", low, high, LEVEL, n, method)


def _table(pairs: list[Pairing]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        for name, found in pair.found.items():
            null = pair.nulls.get(name)
            rows.append(
                (pair.group, pair.way, MEASURES[name], number(found.value), found.low, found.high, found.p,
                 number(pair.rate.get(name, float("nan"))), null.median if null else None, null.p if null else None,
                 found.n)
            )  # fmt: skip
    return ResultTable.of(
        "coefficients",
        "group [text]; way [text]; measure [text]; value; low: 90% from; high: 90% to; p: p by chance; "
        "rate: of the rate; null: moved in time, median; null_p: p moved in time; n [count]",
        rows,
    )


def _matrix(pairs: list[Pairing]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = [
        (f"{pair.group} {pair.way}", MEASURES[name], number(found.value))
        for pair in pairs
        for name, found in pair.found.items()
    ]
    return ResultTable.of("matrix", "pair [text]; measure [text]; value", rows)


def strength(value: float) -> str:
    return "strong" if abs(value) >= STRONG else "mild" if abs(value) >= MILD else "no"


def in_words(pairs: list[Pairing], time: str, symbol: str) -> Iterator[Finding]:
    """One sentence per group, of the direction whose rank correlation exceeds that of moved runs most. Its p is that of
    the best of both: chosen in every shift as it was chosen here."""
    for group in dict.fromkeys(pair.group for pair in pairs):
        mine = [pair for pair in pairs if pair.group == group]
        own = [pair for pair in mine if np.isfinite(pair.found["spearman"].value)]
        if not own:
            yield Finding(
                f"{group}: nothing can be said ({mine[0].found['spearman'].method}).", "undecided", name="association"
            )
            continue
        pair = max(own, key=_beyond_null)
        found, null = pair.found["spearman"], pair.nulls.get("spearman")
        words = f"{group}: {strength(found.value)} association of {time} with the system's {pair.way}s ({symbol}"
        between = f", {found.low:.2f} to {found.high:.2f}" if found.low is not None and found.high is not None else ""
        words += f"; Spearman {found.value:.2f}{between}, n {found.n})"
        chance = best_shift_p([each.volumes for each in own], pair.times)
        moved = _moved_p(own) if null is not None else 0.0
        if not chance <= SURE:
            yield Finding(f"{words}: no more than chance.", "undecided", name="association")
        elif null is not None and moved > SURE:
            yield Finding(
                f"{words}, but runs moved in time have {null.median:.2f} too ({told_p(moved)}): the shared steps may "
                "give it.",
                "undecided",
                name="association",
            )
        else:
            beyond = f", and than runs moved in time have ({null.median:.2f}, {told_p(moved)})" if null else ""
            yield Finding(f"{words}: more than chance gives{beyond}.", name="association")


def _moved_p(own: list[Pairing]) -> float:
    known = [pair for pair in own if "spearman" in pair.nulls]
    return best_moved_p([pair.found["spearman"].value for pair in known], [pair.nulls["spearman"] for pair in known])


def _beyond_null(pair: Pairing) -> float:
    null = pair.nulls.get("spearman")
    return pair.found["spearman"].value - null.median if null else abs(pair.found["spearman"].value)


def _metadata(data: AssociationData) -> Exhibit:
    """mad17.table4."""
    pairs = []
    for group in data.shown:
        rows = data.members(group)
        times = data.of("d_u_m_seconds")[rows]
        for way in _WAYS:
            counts = data.of(f"psi_{way}_ops_count")[rows]
            found = associate(counts, times)
            length = data.of("run_seconds")[rows]
            rates = np.divide(counts, length, out=np.full(len(rows), np.nan), where=length > 0)
            pairs.append(Pairing(data.name(group), way, counts, times, found, coefficients(rates, times), {}))
    caveat = "A longer run sees more of everything, so the rate PsiO/D_J stands beside."
    return _exhibit(data, "mad17.table4", pairs, "D_U_M", "PsiO", (caveat, *_no_operations(data)))


def _no_operations(data: AssociationData) -> tuple[str, ...]:
    if any(name in data.grid.values for name in ("read_ops", "write_ops")):
        return ()
    return ("The servers' samples hold no operation counts (read_ops, write_ops).",)


def _monitored(data: AssociationData, by_volume: list[Pairing]) -> Exhibit:
    """mad17.monitored. Of a group whose files all lie on monitored mounts, PsiI and D_I are PsiD and D_D."""
    if not data.mounts_known:
        return Exhibit(
            "mad17.monitored", coverage=data.coverage, caveats=data.caveats,
            findings=(Finding(
                f"Which files lie on {data.params['filesystem']} is not known: set `mounts` in facility.toml.",
                "undecided", name="mounts_unknown"),),
        )  # fmt: skip
    alike = {group: data.all_monitored(group) for group in data.shown}
    orders = [(group, way) for group in data.shown for way in _WAYS]
    pairs = [
        known if alike[group] else _during_io(data, group, way, "psii", "d_i")
        for (group, way), known in zip(orders, by_volume, strict=True)
    ]
    made = _exhibit(data, "mad17.monitored", pairs, "D_I", "PsiI", (SHARED_STEPS,))
    shares, findings = [], []
    for group in data.shown:
        rows, name = data.members(group), data.name(group)
        files, all_files = data.of("monitored_file_count")[rows], data.of("file_count")[rows]
        moved, all_moved = (
            float(sum(own[rows].sum() for own in own_bytes(data.spans, monitored=only))) for only in (True, False)
        )
        if len(rows) and all_files.sum():
            of_files, of_bytes = float(files.sum() / all_files.sum()), moved / all_moved
            for what, share in (("files", of_files), ("bytes", of_bytes)):
                shares.append(
                    plain(f"{what}_monitored_ratio[{name}]", share, "ratio", n=len(rows), method=f"share of {what}")
                )
            findings.append(
                Finding(
                    f"{name}: {of_files:.0%} of the files and {of_bytes:.0%} of the bytes lie on monitored mounts.",
                    name="monitored_share",
                )
            )
    findings += list(_changes(data))
    return replace(made, estimates=(*shares, *made.estimates), findings=(*findings, *made.findings))


def _changes(data: AssociationData) -> Iterator[Finding]:
    """Does it help to look at monitored mounts alone? The same runs are resampled for both."""
    for group in data.shown:
        rows = data.members(group)
        columns = [data.of(name)[rows] for name in ("psid_read_bytes", "d_d_seconds", "psii_read_bytes", "d_i_seconds")]
        there = np.isfinite(np.stack(columns)).all(axis=0)
        if there.sum() < 20:
            continue
        a, b, c, d = (column[there] for column in columns)
        change = spearman_change((a, b, c, d))
        if change is None:
            continue
        middle, low, high = change
        words = "helps" if low > 0 else "lowers the coefficient" if high < 0 else "makes no difference that shows"
        yield Finding(
            f"{data.name(group)}: restricting to monitored mounts {words} (Spearman with reads changes by "
            f"{middle:+.2f}, {low:+.2f} to {high:+.2f}).",
            name="monitored_change",
        )
