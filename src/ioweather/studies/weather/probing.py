"""Single measurements of the probe (kun19 4.3, 4.4): ten minutes, bands, hosts side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.contracts import Inventory, Need, Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Exhibit,
    Finding,
    Piece,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, format_seconds
from ioweather.stats.bands import find_bands
from ioweather.stats.dependence import groups_differ
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import median_estimate, quantiles, share_estimate
from ioweather.studies.shared.presenting import relabelled, told_p

# [ours] Ten minutes so much slower than usual, of so many operations, are an episode.
_EPISODE: Final = 2.0
_LEAST_OF_EPISODE: Final = 3
_POINTS: Final = 1500
COLUMNS: Final = ("start_ns", "host", "op", "request_bytes", "mode", "duration_ns", "cached", "status", "system")
_OK: Final = "status = 'ok'"
TOO_FEW: Final = "Fewer than 20 operations of each kind: no bands can be told. --set bands_window=7d may hold more."


@dataclass(frozen=True, eq=False)
class Measured:
    """Finished operations of a stretch of time."""

    start_ns: Ints
    seconds: Floats
    op: NDArray[Any]
    host: NDArray[Any]
    filesystem: NDArray[Any]
    request_bytes: Ints
    mode: NDArray[Any]
    cached: Bools
    failed: int
    other: int  # of another size or mode than most of their kind, which would not be the same measurement

    def kinds(self) -> list[tuple[str, str]]:
        return sorted(set(zip(self.filesystem.tolist(), self.op.tolist(), strict=True)))

    def of(self, filesystem: str, op: str) -> Bools:
        return np.asarray((self.filesystem == filesystem) & (self.op == op), np.bool_)


def measured(responses: Frame, facility: Facility) -> Measured:
    ok = responses.text("status").equals("ok")
    ended = ok & responses.known("duration_ns")
    usual = _usual_requests(responses, facility)
    kept = np.flatnonzero(ended & usual)
    frame = responses.take(kept)
    systems = frame.text("system")
    names = np.array([facility.filesystem_of(name) for name in systems.categories] or [""], object)
    return Measured(
        start_ns=frame.ints("start_ns"),
        seconds=frame.ints("duration_ns") / NS,
        op=np.array(frame.text("op").tolist(), object),
        host=np.array(frame.text("host").tolist(), object),
        filesystem=names[systems.codes] if frame.rows else np.empty(0, object),
        request_bytes=frame.ints("request_bytes"),
        mode=np.array(frame.text("mode").tolist(), object),
        cached=frame.bools("cached"),
        failed=int((~ended & usual).sum()),
        other=int((~usual).sum()),
    )


def _usual_requests(responses: Frame, facility: Facility) -> Bools:
    """Whether a row has the size and mode that most rows of its file system and operation have: a sampler's requests
    of many sizes (don15) lie in the same table."""
    systems = responses.text("system")
    places = {name: i for i, name in enumerate(dict.fromkeys(map(facility.filesystem_of, systems.categories)))}
    place = np.array([places[facility.filesystem_of(name)] for name in systems.categories] or [0], np.int64)
    ops = np.stack([place[systems.codes], responses.text("op").codes]) if responses.rows else np.empty((2, 0), np.int64)
    sizes = responses.ints("request_bytes")
    kinds, kind, counts = np.unique(
        np.vstack([ops, sizes, responses.text("mode").codes]), axis=1, return_inverse=True, return_counts=True
    )
    most: dict[tuple[int, ...], int] = {}
    for i in np.argsort(counts, kind="stable"):
        most[tuple(kinds[:2, i].tolist())] = int(i)
    return np.isin(kind, list(most.values()))


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    window = measured(data.frames["window"], facility)
    if len(window.seconds):
        yield _every_measurement(window, int(params["window"]))
    day = measured(data.frames["day"], facility)
    if len(day.seconds):
        yield _bands(day)
    hour = measured(data.frames["hour"], facility)
    if len(hour.seconds):
        yield _hosts(hour)


def _coverage(part: Measured) -> tuple[Coverage, ...]:
    left_out = {"failed_or_missed": part.failed, "of_another_size_or_mode": part.other}
    total = len(part.seconds) + sum(left_out.values())
    return (Coverage(total, len(part.seconds), "operations", {why: n for why, n in left_out.items() if n}),)


def drawn_points(seconds: Floats) -> Ints:
    """Every n-th, and all of the slowest: a thinned picture must not hide what it is for."""
    step = max(1, -(-len(seconds) // _POINTS))
    return np.unique(np.concatenate([np.arange(0, len(seconds), step), np.argsort(seconds)[-200:]]))


def drawn_note(shown: Ints, seconds: Floats) -> tuple[str, ...]:
    if len(shown) == len(seconds):
        return ()
    return (f"Drawn are {len(shown):,} of {len(seconds):,} measurements, the slowest among them.",)


@exhibit("kun19.fig1")
def _every_measurement(part: Measured, length_ns: int) -> Iterator[Piece]:
    shown = drawn_points(part.seconds)
    columns = (part.start_ns, part.seconds, part.op, part.filesystem)
    rows = tuple(zip(*(column[shown].tolist() for column in columns), strict=True))
    table = ResultTable.of(
        "measurements",
        "time [time_ns]; seconds: response time [seconds]; op: operation [text]; filesystem [text]",
        rows,
    )
    chart = Chart.of(
        "scatter",
        table,
        "x=time y=seconds series=op",
        f"Every measurement of {format_seconds(length_ns / NS)}",
        facet="filesystem",
        log="y",
    )
    estimates, findings = [], []
    for filesystem, op in part.kinds():
        mine = part.seconds[part.of(filesystem, op)]
        middle = float(np.median(mine))
        estimates.append(median_estimate(f"{op}_median[{filesystem}]", mine, "seconds"))
        slower = float(mine.max()) / middle if middle else None
        name = f"slower[{op} {filesystem}]"
        estimates.append(plain(name, slower, "factor", n=len(mine), method="slowest over median"))
        slow = float((mine >= 10 * middle).mean())
        if slow > 0:
            findings.append(
                Finding(
                    f"{filesystem} {op}: {slow:.1%} of operations took ten times the median or more.",
                    name="slow_operations",
                )
            )
    yield chart, estimates, findings, drawn_note(shown, part.seconds), _coverage(part)


def _calm(start_ns: Ints, seconds: Floats, mine: Bools) -> Bools:
    """Whether an operation lies in ten minutes that are no slow episode of its kind."""
    calm = np.zeros(len(seconds), np.bool_)
    rows = np.flatnonzero(mine)
    usual = float(np.median(seconds[rows])) if len(rows) else 0.0
    stretch = start_ns[rows] // (10 * MINUTE_NS)
    for own in (rows[stretch == number] for number in np.unique(stretch)):
        calm[own] = np.median(seconds[own]) < _EPISODE * usual or len(own) < _LEAST_OF_EPISODE
    return calm


@exhibit("kun19.bands")
def _bands(part: Measured) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    boxes: list[tuple[Cell, ...]] = []
    estimates, findings, most = [], [], 0
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op)
        mine &= _calm(part.start_ns, part.seconds, mine)
        bands = find_bands(part.seconds[mine])
        parts = [mine & (part.seconds >= band.low) & (part.seconds < band.high) for band in bands]
        shares = [float(part.cached[inside].mean()) if inside.any() else 0.0 for inside in parts]
        for number, (band, inside, cached) in enumerate(zip(bands, parts, shares, strict=True), 1):
            # Only where one band is known to come from a cache do the others come from storage.
            label = "cache" if cached > 0.5 else "storage" if max(shares) > 0.5 else f"band {number}"
            rows.append((filesystem, op, number, label, band.centre, band.share, cached, band.n))
            boxes.append((filesystem, op, label, *quantiles(part.seconds[inside])))
            estimates.append(
                plain(f"{op}_band{number}[{filesystem}]", band.centre, "seconds", n=band.n, method="median of the band")
            )
        if len(bands) > 1:
            listed = ", ".join(f"{format_seconds(b.centre)} ({b.share:.0%})" for b in bands)
            findings.append(Finding(f"{filesystem} {op} has {len(bands)} bands: {listed}.", name="bands"))
        if op == "read":
            most = max(most, len(bands))
    if most:
        estimates.append(plain("most_read_bands", most, "count", method="largest number on any file system"))
    columns = columns_of(
        "filesystem: file system [text]; op: operation [text]; band [count]; label [text]; centre [seconds]; "
        "share [ratio]; cached: known as cached [ratio]; n [count]"
    )
    table = ResultTable("bands", columns, tuple(rows))
    drawn = ResultTable("boxes", (*columns[:2], columns[3], *_boxes("response time")), tuple(boxes))
    chart = Chart("box", drawn, {"x": "op", **_BOX, "series": "label"}, "Bands of response time",
                  facet="filesystem", scales={"y": "log"})  # fmt: skip
    yield table, (chart,) if rows else (), estimates
    yield tuple(findings) or (Finding("Every operation has one band." if rows else TOO_FEW, name="bands"),)
    yield (
        "A band is called cache where the probe saw its data in the client's cache, and the others then storage; "
        "without that nothing tells where a band comes from."
    )
    yield f"Ten minutes whose median is {_EPISODE:g} times that of all are left out: a slow episode is no band."
    yield _coverage(part)


_BOX: Final = {name: name for name in ("q05", "q25", "q50", "q75", "q95")}


def _boxes(middle: str) -> tuple[ResultColumn, ...]:
    labels = ("5%", "25%", middle, "75%", "95%")
    return tuple(ResultColumn(name, label, "seconds") for name, label in zip(_BOX, labels, strict=True))


_HOSTS_TEST: Final = "Welch's test of mean ranks, by independent measurements"


@exhibit("kun19.fig2")
def _hosts(part: Measured) -> Iterator[Piece]:
    """kun19.fig2, with a test of difference."""
    rows: list[tuple[Cell, ...]] = []
    estimates, findings = [], []
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op)
        hosts = sorted(set(part.host[mine].tolist()))
        samples = {host: part.seconds[mine & (part.host == host)] for host in hosts}
        rows += [(filesystem, op, host, *quantiles(values), len(values)) for host, values in samples.items()]
        if len(hosts) < 2:
            continue
        p = groups_differ(list(samples.values()))
        middles = {host: float(np.median(values)) for host, values in samples.items()}
        odd = max(middles, key=lambda host: abs(np.log(middles[host] / float(np.median(list(middles.values()))))))
        text = f"{filesystem} {op}: medians of {len(hosts)} hosts"
        if p is None:
            words = f"{text} cannot be compared: too few independent measurements."
            findings.append(Finding(words, "undecided", name="hosts"))
            continue
        estimates.append(plain(f"p_hosts_{op}[{filesystem}]", p, "", n=int(mine.sum()), method=_HOSTS_TEST))
        findings.append(
            Finding(f"{text} differ ({told_p(p)}); {odd} differs most ({format_seconds(middles[odd])}).", name="hosts")
            if p < 0.01
            else Finding(f"{text} do not surely differ ({told_p(p)}).", "undecided", name="hosts")
        )
    columns = (
        *columns_of("filesystem: file system [text]; op: operation [text]; host [text]"),
        *_boxes("median"),
        ResultColumn("n", "", "count"),
    )
    table = ResultTable("hosts", columns, tuple(rows))
    drawn = relabelled(table, q50="response time")
    chart = Chart("box", drawn, {"x": "host", **_BOX, "series": "op"}, "Response times by host", facet="filesystem",
                  scales={"y": "log"})  # fmt: skip
    one = Finding("All measurements come from one host: nothing to compare.", name="one_host")
    hosts_plain = plain("hosts", len(set(part.host.tolist())), "count")
    fewest = min((int(row[-1] or 0) for row in rows), default=0)
    hosts_also = (
        plain("measurements_per_host", fewest, "count", method="fewest of any operation and host"),
        plain("length", float(part.start_ns.max() - part.start_ns.min()) / NS, "seconds", method="first to last"),
    )
    if estimates:
        differ = sum((e.value or 0.0) < 0.01 for e in estimates)
        estimates.append(share_estimate("hosts_differ_ratio", differ, len(estimates)))
    yield table, chart, hosts_plain, hosts_also, estimates, tuple(findings) or (one,)
    yield "Hosts that measured at the same time met the same system; the test takes them as independent."
    yield _coverage(part)


_LAST: Final = f"SELECT max(start_ns) FROM responses WHERE {_OK}"


def _end(inventory: Inventory, _: Params) -> Cell:
    last = inventory.scalar(_LAST)
    return int(last) + 1 if isinstance(last, int) else 0


STUDY = Study(
    name="probing",
    exhibits=("kun19.fig1", "kun19.bands", "kun19.fig2"),
    needs=(
        Need("window", "responses", columns=COLUMNS, where={"start_ns >=": "$first_ns", "start_ns <": "$last_ns"}),
        Need("day", "responses", columns=COLUMNS, where={"start_ns >=": "$day_ns", "start_ns <": "$last_ns"}),
        Need("hour", "responses", columns=COLUMNS, where={"start_ns >=": "$hour_ns", "start_ns <": "$last_ns"}),
    ),
    run=run,
    params=(
        Param("window", "length of fig1", "duration", default="10min"),
        Param("last_ns", "where fig1 and fig2 end (UTC ns); default: the newest operation", "int", choose=_end),
        Param("first_ns", "where fig1 begins (UTC ns); default: one window before the end", "int",
              choose=lambda _, values: values["last_ns"] - values["window"]),
        Param("bands_window", "length of what bands are looked for in", "duration", default="24h"),
        Param("day_ns", "where bands begins (UTC ns); default: one such length before the end", "int",
              choose=lambda _, values: values["last_ns"] - values["bands_window"]),
        Param("hour_ns", "where fig2 begins (UTC ns); default: an hour before the end", "int",
              choose=lambda _, values: values["last_ns"] - HOUR_NS),
    ),
)  # fmt: skip
