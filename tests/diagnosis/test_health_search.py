"""Unhealthy components by what requests took: at servers, by the counts of jobs, and at clients of NFS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.frames import Floats, Text
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import MIB, MINUTE_NS, NS
from ioweather.diagnosis.health import HealthOutcome
from ioweather.diagnosis.health_query import find_sick_components
from ioweather.job_io.outcomes import Unhealthy
from ioweather.lake.lake import Lake, open_lake
from ioweather.planning.transfers import StripeOutcome
from ioweather.stats.order_statistics import BySize
from ioweather.topics.source import ask
from planted_responses import SIZES, START_NS, law_of, rows

# Long enough for four hours to be rare: without peers, what it shows often is what is usual of a component.
STEP_NS = 5 * MINUTE_NS
STEPS, COMPONENTS = 6 * 288, 6
SICK = slice(600, 648)


def named(lake: Lake) -> list[Unhealthy]:
    find_sick_components(lake)
    result = ask("health", lake).result
    assert isinstance(result, HealthOutcome)
    return list(result.unhealthy)


def requests(rng: np.random.Generator, components: int = COMPONENTS) -> Floats:
    """Five minutes' requests of each component: a day with busier hours, and single busy ones."""
    hours = 1.5 + np.sin(np.arange(STEPS) / 24)[:, None]
    return np.asarray(rng.poisson(100 * hours * rng.lognormal(0, 0.5, (STEPS, components))).astype(np.float64))


def times(rng: np.random.Generator, count: Floats, usual: float, slower: int | None, factor: float) -> Floats:
    """Seconds that they took; of one component (None: of none) `factor` times as long for four hours."""
    took = count * usual * rng.lognormal(0, 0.15, count.shape)
    if slower is not None:
        took[SICK, slower] *= factor
    return np.asarray(took)


def counted_jobs(lake: Lake, kind: str, prefix: str, tables: dict[str, tuple[Floats, Floats]]) -> None:
    for operation, (count, seconds) in tables.items():
        step, column = np.nonzero(count > 0)
        lake.append("job_operations", TABLES["job_operations"].frame({
            "start_ns": DAY + step * STEP_NS, "component": [f"{prefix}{i:04x}" for i in column.tolist()],
            "count": count[step, column].astype(np.int64), "time_ns": (seconds[step, column] * 1e9).astype(np.int64),
        }, rows=len(step), interval_ns=STEP_NS, system="scratch", component_kind=kind, job_key="7", job_id=7,
            operation=operation, quality=0), source="lustre")  # fmt: skip


@pytest.mark.parametrize("sick", [3, None])
def test_a_target_whose_server_takes_longer_for_the_jobs_requests(tmp_path: Path, sick: int | None) -> None:
    rng, lake = np.random.default_rng(5), open_lake(tmp_path / "lake", create=True)
    tables = {}
    for operation, usual in (("read", 0.004), ("write", 0.002)):
        count = requests(rng)
        tables[operation] = count, times(rng, count, usual, sick, 5.0)
        lake.append("series", series_frame(count * 2**20, metric=f"{operation}_bytes", step_ns=STEP_NS), source="lmt")
    counted_jobs(lake, "ost", "OST", tables)
    found = named(lake)
    assert [each.component for each in found] == (["OST0003"] if sick is not None else [])
    if sick is not None:
        assert "server time per request" in found[0].cause
        assert abs(found[0].start_ns - DAY - SICK.start * STEP_NS) <= 20 * MINUTE_NS
        assert found[0].end_ns is not None
        assert abs(found[0].end_ns - DAY - SICK.stop * STEP_NS) <= 20 * MINUTE_NS


@pytest.mark.parametrize("sick", [0, None])
def test_a_metadata_server_that_takes_longer_and_one_that_is_asked_for_other_things(
    tmp_path: Path, sick: int | None
) -> None:
    """Without a sick one, creates, which take five times as long as stats, are most of what it does for four hours."""
    rng, lake = np.random.default_rng(6), open_lake(tmp_path / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(requests(rng) * 2**20, metric=metric, step_ns=STEP_NS), source="lmt")
    stats, creates = requests(rng, 1) + 50, requests(rng, 1) + 50
    if sick is None:
        creates[SICK] *= 10
    tables = {"getattr": (stats, times(rng, stats, 0.001, sick, 4.0)),
              "create": (creates, times(rng, creates, 0.005, sick, 4.0))}  # fmt: skip
    counted_jobs(lake, "mdt", "MDT", tables)
    found = named(lake)
    assert [each.component for each in found] == (["MDT0000"] if sick is not None else [])
    if found:
        assert "operations on MDT0000 took" in found[0].cause
        assert "server time per operation" in found[0].cause


@pytest.mark.parametrize("slow", ["server", "one client", "nothing"])
def test_a_server_of_nfs_is_named_by_most_of_its_clients_and_never_by_one(tmp_path: Path, slow: str) -> None:
    rng, lake = np.random.default_rng(7), open_lake(tmp_path / "lake", create=True)
    for operation, usual in (("read", 0.003), ("write", 0.006)):
        count = requests(rng)
        took = times(rng, count, usual, 2 if slow == "one client" else None, 6.0)
        if slow == "server":
            took[SICK] *= 6.0
        for metric, values in ((f"{operation}_ops", count), (f"{operation}_rtt_seconds", took)):
            frame = series_frame(values, metric=metric, kind="host", system="mount:/home", step_ns=STEP_NS)
            lake.append("series", frame, source="nfs")
    found = named(lake)
    assert len(found) == (slow == "server")
    if found:
        assert "from most clients to" in found[0].cause
        assert found[0].factor == pytest.approx(6.0, rel=0.25)


@pytest.mark.parametrize("sick", [1, None])
def test_one_of_several_metadata_servers_by_probes_of_each(tmp_path: Path, sick: int | None) -> None:
    """`series_frame` calls these OSTs, too."""
    rng, lake = np.random.default_rng(8), open_lake(tmp_path / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(requests(rng) * 2**20, metric=metric, step_ns=STEP_NS), source="lmt")
    count = requests(rng, 4)
    lake.append("series", series_frame(count, metric="open_ops", kind="mdt", step_ns=STEP_NS), source="lmt")
    took = times(rng, np.ones(count.shape), 0.002, sick, 6.0)
    step, column = np.nonzero(took > 0)
    lake.append("responses", TABLES["responses"].frame({
        "start_ns": DAY + step * STEP_NS + column, "component": [f"OST{i:04x}" for i in column.tolist()],
        "duration_ns": (took[step, column] * 1e9).astype(np.int64),
    }, rows=len(step), host="n1", target="/scratch", op="create", request_bytes=0, mode="nocache", system="scratch",
        status="ok"), source="probe")  # fmt: skip
    assert [each.component for each in named(lake)] == (["OST0001"] if sick is not None else [])


def test_stripe_says_what_the_quiet_system_does_though_a_target_was_sick(tmp_path: Path) -> None:
    """A sampler's sizes on all targets; one of these is eight times slower for a third of the time, and found so."""
    lake = open_lake(tmp_path / "lake", create=True)
    (lake.root / "facility.toml").write_text('[filesystem.scratch]\nlustre = ["snx11025"]\nmounts = ["/scratch"]\n')
    sampled = concat([rows(size, 300, op="write", targets=8) for size in SIZES])
    start, at = sampled.ints("start_ns"), (START_NS + 100 * MINUTE_NS, START_NS + 200 * MINUTE_NS)
    sick = sampled.text("component").equals("OST0003") & (start >= at[0]) & (start < at[1])
    slow = sampled.with_columns(duration_ns=np.where(sick, 8, 1) * sampled.ints("duration_ns"))
    lake.append("responses", slow, source="probe")
    assert [each.component for each in named(lake)] == ["OST0003"]
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    result = ask("predict", lake, {"size": 64 * MIB, "targets": 8, "stripe": True, "op": "write"}).result.stripe
    assert isinstance(result, StripeOutcome)
    for width in result.widths:
        expected = float(truth.transfer(64 * MIB, width.width).quantile(0.9))
        assert width.quantiles[1].seconds == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("names", "word"), [("OST{:04x}", "OST"), ("brick{}", "brick"), ("10.0.0.{}", "target")])
def test_what_was_searched_is_said_where_nothing_was_found(tmp_path: Path, names: str, word: str) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    assert ask("health", lake).headline.startswith("Unknown")
    rng = np.random.default_rng(3)
    for metric in ("read_bytes", "write_bytes"):
        frame = series_frame(rng.exponential(1e9, (180, 4)), metric=metric)
        named_so = Text(frame.text("component").codes, tuple(names.format(number) for number in range(4)))
        lake.append("series", frame.with_columns(component=named_so), source="test")
    answer = ask("health", lake)
    assert isinstance(answer.result, HealthOutcome)
    (searched,) = answer.result.searched
    assert searched.components == {word: 4}
    assert (searched.slow_seconds, searched.silent_seconds, searched.limited_seconds) == (None, 180.0, 3 * 3600.0)
    assert any(text.startswith("slow targets (no request times") for text in searched.unseen)
    assert answer.headline == "No unhealthy component found."
    assert answer.coverage == ()
    (said,) = [finding.text for finding in answer.findings]
    assert said.startswith(f"Searched 4 {word}s of scratch")
    assert "silence 3 min" in said


def seconds_of_bricks(rng: np.random.Generator, sick: slice | None) -> dict[str, Floats]:
    """A quarter of an hour of four devices, by the second: bursts of requests, some small; one serves few of them."""
    shape = 900, 4
    bursts = rng.random(shape) < 0.25
    queue = np.where(bursts, rng.choice([0.3, 1.0, 4.0, 15.0], shape), 0.0)
    rate = 200 * queue / (queue + 0.5) * rng.lognormal(0, 0.1, shape)
    if sick is not None:
        queue[sick, 2] = 3.0
        rate[sick, 2] = 30.0
    random = rng.random(shape) < 0.3
    return {"read_ops": rate, "read_bytes": rate * np.where(random, 4096, 262144), "write_bytes": 0 * rate,
            "read_busy_seconds": queue, "busy_ratio": np.minimum(1.0, queue)}  # fmt: skip


@pytest.mark.parametrize("sick", [slice(400, 412), None])
def test_a_slow_disk_of_twelve_seconds_shows_in_samples_of_each_second(tmp_path: Path, sick: slice | None) -> None:
    rng, lake = np.random.default_rng(9), open_lake(tmp_path / "lake", create=True)
    for metric, values in seconds_of_bricks(rng, sick).items():
        lake.append("series", series_frame(values, metric=metric, step_ns=NS), source="test")
    found = named(lake)
    assert [each.component for each in found] == (["OST0002"] if sick is not None else [])
    if sick is not None:
        assert abs(found[0].start_ns - DAY - sick.start * NS) <= 6 * NS
        assert found[0].end_ns is not None
        assert abs(found[0].end_ns - DAY - sick.stop * NS) <= 6 * NS
    searched = ask("health", lake).result
    assert isinstance(searched, HealthOutcome)
    assert searched.searched[0].sample_seconds == 1.0
    assert searched.searched[0].slow_seconds is not None
    assert searched.searched[0].slow_seconds <= 12


@pytest.mark.parametrize("stalls", [True, False])
def test_a_stalled_server_shows_in_the_probe_whose_times_follow_its_queue(tmp_path: Path, stalls: bool) -> None:
    """Probes of four folders, which name no target: each is slower when the queue of its device is long."""
    rng, lake = np.random.default_rng(10), open_lake(tmp_path / "lake", create=True)
    made = seconds_of_bricks(rng, None)
    for metric, values in made.items():
        lake.append("series", series_frame(values, metric=metric, step_ns=NS), source="test")
    took = 0.01 * (1 + made["read_busy_seconds"]) * rng.lognormal(0, 0.2, (900, 4))
    if stalls:
        took[500:530, 1] *= 8
    step, column = np.nonzero(took > 0)
    folders = tuple(f"/gv/{name}" for name in "dbca")
    lake.append("responses", TABLES["responses"].frame({
        "start_ns": DAY + step * NS + column, "duration_ns": (took[step, column] * 1e9).astype(np.int64),
        "target": [folders[i] for i in column.tolist()],
    }, rows=len(step), host="n1", op="read", request_bytes=2**20, mode="nocache", system="scratch", status="ok"),
        source="probe")  # fmt: skip
    found = named(lake)
    assert [each.component for each in found] == (["OST0001"] if stalls else [])
    assert all(abs(each.start_ns - DAY - 500 * NS) <= 6 * NS for each in found)


def test_a_limit_of_the_network_is_that_of_all_targets_together(tmp_path: Path) -> None:
    """The sum stays while its parts change, and probes are slow; or one job alone works at a constant rate."""
    for is_limit in (True, False):
        rng, lake = np.random.default_rng(11), open_lake(tmp_path / f"lake{is_limit}", create=True)
        moved = rng.exponential(1e9, (STEPS, COMPONENTS)) * (rng.random((STEPS, 1)) < 0.7)
        parts = rng.dirichlet(np.ones(COMPONENTS), SICK.stop - SICK.start)
        moved[SICK] = 3e9 * (parts if is_limit else np.full(COMPONENTS, 1 / COMPONENTS))
        for metric, values in (("read_bytes", moved), ("write_bytes", 0 * moved)):
            lake.append("series", series_frame(values, metric=metric, step_ns=STEP_NS), source="lmt")
        took = 0.01 * rng.lognormal(0, 0.2, moved.shape)
        took[SICK] *= 3
        step, column = np.nonzero(took > 0)
        lake.append("responses", TABLES["responses"].frame({
            "start_ns": DAY + step * STEP_NS + column, "component": [f"OST{i:04x}" for i in column.tolist()],
            "duration_ns": (took[step, column] * 1e9).astype(np.int64),
        }, rows=len(step), host="n1", target="/scratch", op="read", request_bytes=2**20, mode="nocache",
            system="scratch", status="ok"), source="probe")  # fmt: skip
        found = named(lake)
        assert [each.component for each in found] == (["scratch"] if is_limit else [])
        assert all("a shared limit, such as the network" in each.cause for each in found)
