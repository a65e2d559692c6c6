"""Sites where it is known which claims of the papers are true: for their error rate and their power."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from planted_jobs import GIB, MIB, PARAMS, planted

from ioweather.core.facility import Facility, _FileSystem, parse_facility
from ioweather.core.frames import Frame, Matrix
from ioweather.core.papers.claim_tests import claim_of, claims, judge_claim, judge_claims
from ioweather.core.results import Exhibit
from ioweather.core.tables import RESPONSES, concat, encode_text
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, names_of
from ioweather.facts.slowdown import roll_up
from ioweather.stats.families import Law, Mixture
from ioweather.studies.don15 import RESPONSE_TAILS, RESPONSE_TIMES
from ioweather.studies.kun19 import perceived_slowdown, probing
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.catalogue import STUDIES
from ioweather.ui.python_api import simulate_facility
from planted_association import made as association
from planted_association import planted_association
from planted_source import PlantedSource, run_study
from planted_traffic import START, traffic
from planted_traffic import run as run_traffic
from studies.conftest import CLIMATE_PARAMS, PlantedClimate, rollup_frame, smooth


@dataclass(frozen=True)
class Kind:
    """Sites of one kind: `make(seed)` gives their exhibits. Of the claims `false` are false there (some of them exactly
    at their criterion), and `true` are true. With `centred`, the criterion of every other claim is moved to its value
    at sites eight times as long, where the claim is exactly at its limit."""

    name: str
    make: Callable[..., Iterable[Exhibit]]
    false: frozenset[str] = frozenset()
    true: frozenset[str] = frozenset()
    centred: bool = False
    sites: int = 40


def ids(paper: str, names: str) -> frozenset[str]:
    found = frozenset(f"{paper}.{name}" for name in names_of(names))
    assert {claim_of(each).id for each in found} == found
    return found


def quiet_climate(seed: int, days: int = 28, targets: int = 8, step_ns: int = 5 * MINUTE_NS) -> Iterator[Exhibit]:
    """Gaussian amounts that remember an hour; days differ in level, and everything else is chance."""
    rng = np.random.default_rng([2011, seed])
    rows = days * DAY_NS // step_ns
    keeps = 0.5 ** (step_ns / HOUR_NS)
    values = {}
    for metric in ("read_bytes", "write_bytes"):
        level = np.repeat(rng.standard_normal((days, 1)), rows // days, axis=0)
        each = smooth(rng, rows, 1, keeps) + 0.3 * level + 0.5 * smooth(rng, rows, targets, keeps)
        values[metric] = 1e12 * np.exp(0.5 * each)
    values["cpu_ratio"] = np.minimum(0.02 * np.exp(0.5 * smooth(rng, rows, targets // 2, keeps) - 0.125), 1.0)
    start = 1_514_764_800 * 10**9
    matrices = {
        metric: Matrix(
            metric, start, step_ns, tuple(f"OST{i:04x}" for i in range(each.shape[1])), each,
            np.broadcast_to(np.float32(1), each.shape),
        )
        for metric, each in values.items()
    }  # fmt: skip
    opens, closes = (5e5 * np.exp(0.5 * smooth(rng, rows, 1, keeps)[:, 0]) for _ in range(2))
    metadata = rollup_frame(start, step_ns, {"open_ops": opens, "close_ops": closes})
    data = PlantedSource({"metadata": metadata}, matrices, (start, start + days * DAY_NS), step_ns)
    facility = Facility(filesystems=(_FileSystem("scratch", peak_bytes_per_s=1e18, component_limit_bytes_per_s=1e18),))
    params: dict[str, Any] = CLIMATE_PARAMS | {"resolution": step_ns}
    return run_study(STUDIES["climate"], data, facility, params)


def by_minute(seed: int, days: int = 10) -> Iterator[Exhibit]:
    """56 targets by the minute."""
    return quiet_climate(seed, days, 56, MINUTE_NS)


def busy_climate(seed: int) -> Iterable[Exhibit]:
    """Every pattern of pat19 that the planted climate has, 42 days."""
    return PlantedClimate(days=42, seed=seed).run().values()


def jobs(seed: int, there: bool) -> Iterator[Exhibit]:
    """40 programs of 20 projects; each trait is drawn per program or project, with the probability of its criterion or
    (`there`) one well beyond it."""
    rng = np.random.default_rng([1101, seed])

    def chance(at: float, beyond: float) -> bool:
        return bool(rng.random() < (beyond if there else at))

    listed: list[dict[str, Any]] = []
    for project in range(20):
        reads, orderly, aligned, metadata = chance(0.5, 0.98), chance(0.5, 0.98), chance(0.5, 0.02), chance(0.5, 0.98)
        for program in range(2):
            library, posix = chance(0.05, 0.0), chance(0.5, 0.8)
            interface = "HDF5" if library else "POSIX" if posix else "MPI-IO"
            large = bool(program)
            strategy = "shared" if chance(0.5, 0.95) == large else "unique"
            usual = 0.5 * rng.standard_normal() + (np.log(1.25) if posix and not there else 0.0)
            new = chance(0.9, 0.995)
            for _ in range(int(rng.geometric(0.15))):
                nodes = int(rng.choice([1024, 2048, 4096] if large else [32, 64, 128]))
                empty, moved = chance(0.01, 0.2), int(GIB * rng.lognormal(3, 0.5))
                rate = 5 * np.exp(usual + 0.4 * rng.standard_normal() - (0.8 * np.log(nodes) if there else 0.0))
                if chance(0.01, 0.0):
                    rate = 1e4
                read = 0 if empty else int(moved * (0.8 if reads else 0.2))
                written = 0 if empty else moved - read
                io = max(1e-3, (read + written) / MIB / rate / nodes)
                count = int(rng.integers(2, 30))
                listed.append({
                    "exe": f"/bin/p{project}-{program}", "uid": 100 + project, "nprocs": 4 * nodes, "read": read,
                    "written": written, "interfaces": interface, "files": 0 if empty else 10, "io": io,
                    f"{interface.lower().replace('-', '')}_read_bytes": read, f"{strategy}_read_bytes": read,
                    f"{interface.lower().replace('-', '')}_write_bytes": written, f"{strategy}_write_bytes": written,
                    f"{strategy}_file_count": 0 if empty else 10, "fs_read_count": 100,
                    "sequential_count": 95 if orderly else 40, "alignment_tested_count": 100,
                    "not_aligned_count": 10 if aligned else 90, "meta_seconds": io * (0.6 if metadata else 0.1),
                    "read_seconds": io * (0.4 if metadata else 0.9), "write_only_file_count": count,
                    "size_known_file_count": count, "new_or_empty_file_count": count if new else count // 10,
                    "main_mount": "/scratch",
                })  # fmt: skip
    order = rng.permutation(len(listed))
    frames = planted([listed[i] for i in order])
    rules = [{"exe": f"/bin/p{project}-*", "name": f"P{project}"} for project in range(20)]
    site = parse_facility({"name": "planted", "node_limit_bytes_per_s": 4e9, "project": rules})
    for study in ("access_methods", "project_io", "project_performance", "node_ceiling", "overwriting"):
        yield from run_study(STUDIES[study], PlantedSource(frames), site, PARAMS)


def throughput(seed: int, there: bool) -> Iterable[Exhibit]:
    """Minutes of 30 days at the peak in a tenth of the time (`there`: 3%), in spells of an hour."""
    rng, minutes = np.random.default_rng([1107, seed]), 30 * 1440
    spell = smooth(rng, minutes, 1, 0.97)[:, 0] > (1.881 if there else 1.2816)
    values = np.where(spell, 1.0, 0.3 * rng.random(minutes)) * 6e10
    data = PlantedSource({"traffic": traffic(values / 2, values / 2)}, {}, (START, START + 30 * DAY_NS), MINUTE_NS)
    return run_traffic("utilisation", data).values()


HEAD = Mixture(Law("truncated_normal", 10.0, 1.2, 13.0), Law("power_law", 13.0, 3.0), 0.15)
OTHER = Mixture(Law("truncated_cauchy", 10.0, 0.4, 13.0), Law("weibull", 13.0, 3.0, 3.0), 0.25)
# Milliseconds of a request.
TIMES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(10.0, 1.0, n),
    "other": lambda rng, n: OTHER.sample(n, rng),
    "planted": lambda rng, n: HEAD.sample(n, rng),
}


def responses(kind: str, seed: int) -> Iterator[Exhibit]:
    """Two sizes, read and written, with and without a cache, on three file systems."""
    rng, frames = np.random.default_rng([1509, seed, len(kind)]), []
    for system in range(3):
        for op in ("read", "write"):
            for mode in ("nocache", "cache"):
                for size in (MIB, 4 * MIB):
                    seconds = TIMES[kind](rng, 300) / 1000 * (0.2 if kind == "planted" and mode == "cache" else 1.0)
                    frames.append(RESPONSES.frame(
                        start_ns=START + np.arange(300) * 60 * NS, host="h", target=f"/fs{system}/s", op=op,
                        request_bytes=size, mode=mode, duration_ns=np.round(seconds * NS).astype(np.int64),
                        system=f"sys{system}", component="OST0000", status="ok", run_id="r", rows=300,
                    ))  # fmt: skip
    site = Facility(
        filesystems=tuple(_FileSystem(f"fs{i}", lustre=(f"sys{i}",), mounts=(f"/fs{i}",)) for i in range(3))
    )
    for study in (RESPONSE_TIMES, RESPONSE_TAILS):
        given = {param.name: param.default for param in study.params} | {"request_size": MIB}
        given |= {"replicates": 0} if study is RESPONSE_TAILS else {}
        yield from run_study(study, PlantedSource({"responses": concat(frames)}), site, given)


def probes(seed: int, pattern: str) -> Iterator[Exhibit]:
    """Five weeks of a probe on two hosts every 10 minutes: one law at all times, waits and a slow interval, or slow
    working days and uneven metadata."""
    rng = np.random.default_rng([1904, seed, len(pattern)])
    n, frames = 35 * 144 * 2, []
    starts = START // DAY_NS * DAY_NS + 2 * DAY_NS + np.arange(n) * 5 * MINUTE_NS  # from a Monday
    host = np.where(np.arange(n) % 2, "h2", "h1")
    for op in ("read", "write", "stat", "create"):
        seconds = 0.01 * rng.lognormal(0, 0.4, n)
        # 48 requests in four hours: half of the intervals have one of 2 s or longer, or nine tenths.
        slow = rng.random(n) < 1 - (0.1 if pattern == "waits" else 0.5) ** (1 / 48)
        seconds[slow] = 2.0 + rng.exponential(1.0, int(slow.sum()))
        if pattern == "none":
            seconds *= np.where(host == "h2", 1.1, 1.0)
        elif pattern == "waits":
            seconds[4800:4848] *= 60
            seconds = np.where((rng.random(n) < 0.25) & (op == "read"), seconds / 30, seconds)
        else:
            seconds *= np.where(np.arange(n) // 288 % 7 < 5, 1.4, 0.6)
            if op in ("stat", "create"):
                seconds *= np.exp(0.8 * smooth(rng, n // 48, 1, 0.5))[:, 0].repeat(48)
        frames.append(RESPONSES.frame(
            start_ns=starts, host=host.tolist(), target="/work/p", op=op, request_bytes=1 << 20, mode="nocache",
            duration_ns=np.round(seconds * NS).astype(np.int64), system="mount:/work/p", status="ok", rows=n,
        ))  # fmt: skip
    data = PlantedSource({"response_rollups": roll_up(concat(frames), 10 * MINUTE_NS), "responses": concat(frames)})
    site = Facility(filesystems=(_FileSystem("work", mounts=("/work",)),))
    yield from run_study(perceived_slowdown.STUDY, data, site, {"threshold": 2.0})
    yield from run_study(perceived_slowdown.TWO_LENGTHS, data, site)
    yield from run_study(probing.STUDY, data, site, {"window": 10 * MINUTE_NS, "bands_window": DAY_NS, "last_ns": 0})


def benchmark(seed: int, there: bool) -> Iterator[Exhibit]:
    """24 phases of five minutes; each is slow with a probability of a half, or of 0.98."""
    rng, hours = np.random.default_rng([1905, seed]), 12
    usual = 0.01 * rng.lognormal(0, 0.3, hours * 3600)
    during = (
        0.01 * rng.lognormal(0, 0.3, 24 * 300) * np.where(rng.random(24) < (0.98 if there else 0.5), 3, 1).repeat(300)
    )

    def rows(seconds: np.ndarray, first_ns: int) -> Frame:
        return RESPONSES.frame(
            start_ns=first_ns + np.arange(len(seconds)) * NS, host="a", target="/work/p", op="read",
            request_bytes=1 << 20, mode="nocache", system="work", status="ok", rows=len(seconds),
            duration_ns=np.round(seconds * NS).astype(np.int64),
        )  # fmt: skip

    begin, before = START // HOUR_NS * HOUR_NS, rows(usual, START // HOUR_NS * HOUR_NS - hours * HOUR_NS)
    hour, edges = rows(during, begin), begin + np.arange(25) * 300 * NS
    phases = Frame(
        {"label": encode_text([f"phase {i}" for i in range(24)]), "start_ns": edges[:-1], "end_ns": edges[1:]}
    )
    frames = {"responses": hour, "events": phases, "response_rollups": roll_up(concat([before, hour]), HOUR_NS)}
    return run_study(probing.BENCHMARK_PHASES, PlantedSource(frames), Facility(), {})


def runs_of_groups(seed: int, contention: float) -> Iterator[Exhibit]:
    """Three groups of runs on a system whose load does not slow them, or as much as each group says."""
    data = planted_association(days=20, seed=1700 + seed, contention=contention)
    for study in ("association", "association_granularity"):
        yield from association(study, data, group="strong").values()


def simulated(seed: int) -> Iterator[Exhibit]:
    """Three days of the preset laptop, through its files: Normal heads, power-law tails, a fifth of the opened files
    never closed, runs without files."""
    with TemporaryDirectory() as folder:
        lake = simulate_facility(folder, days=3, seed=900 + seed)
        yield from make_exhibits(
            lake, names_of("don15.fig3 don15.singlefits don15.fig5 don15.fig6 pat19.fig13 car11.fig5")
        )


NULL = """more_read writes_vary_more evening_writes sunday_writes peak_hour low_reads_last_longer low_writes_last_longer
    high_reads_last_longer low_reads_longer_than_writes lasting_order writes_more_parallel writes_reach_10 not_closed"""
PLANTED_CLIMATE = """more_read bursty_writes evening_writes sunday_writes peak_hour lasting_order not_closed
    opens_foretell closes_foretell unbalanced_reads"""
JOBS = """posix_jobs posix_bytes large_jobs_share large_jobs_share_bytes projects_read_more runs_without_files new_files
    sequential unaligned metadata_cost slower_per_node below_ceiling small_jobs_unique posix_no_faster few_libraries"""
RESPONSE = "right_skewed not_normal heavy_kurtosis no_single_fit heavy_tail power_law_tail cache_shortens_reads"
PROBE = "hosts_agree slow_intervals slowest_seconds slow_four_hours two_read_bands"
WEEKS = "metadata_varies_more weekly_pattern"
SIMULATED = ids("don15", "right_skewed not_normal heavy_kurtosis no_single_fit normal_head power_law_tail") | ids(
    "pat19", "not_closed"
)
RUNS = """reads_cost_time writes_cost_time reads_cost_metadata writes_cost_metadata coarse_sampling_hides
    reads_not_universal writes_not_universal reads_narrow"""
CONTENDED = """reads_cost_time reads_cost_metadata writes_cost_metadata coarse_sampling_hides reads_not_universal
    reads_narrow"""
KINDS = (
    Kind("climate", quiet_climate, false=ids("pat19", NULL), centred=True),
    Kind("climate by the minute", by_minute, false=ids("pat19", NULL), centred=True),
    Kind("busy climate", busy_climate, true=ids("pat19", PLANTED_CLIMATE)),
    Kind("jobs at criteria", lambda seed: jobs(seed, False), false=ids("car11", JOBS)),
    Kind("jobs beyond criteria", lambda seed: jobs(seed, True), true=ids("car11", JOBS)),
    Kind("peaks in 10% of the time", lambda seed: throughput(seed, False), false=ids("car11", "mostly_below_third")),
    Kind("peaks in 3% of the time", lambda seed: throughput(seed, True), true=ids("car11", "mostly_below_third")),
    Kind("Normal times", lambda seed: responses("normal", seed), false=ids("don15", RESPONSE)),
    Kind(
        "Cauchy heads, Weibull tails",
        lambda seed: responses("other", seed),
        false=ids("don15", "normal_head power_law_tail weibull_gamma_poor"),
    ),
    Kind(
        "Normal heads, power-law tails",
        lambda seed: responses("planted", seed),
        true=ids("don15", f"{RESPONSE} normal_head weibull_gamma_poor"),
    ),
    Kind("one law at all times", lambda seed: probes(seed, "none"), false=ids("kun19", f"{PROBE} {WEEKS}")),
    Kind("waits and a slow interval", lambda seed: probes(seed, "waits"), true=ids("kun19", PROBE)),
    Kind("slow working days", lambda seed: probes(seed, "working days"), true=ids("kun19", WEEKS)),
    Kind("half of the phases slow", lambda seed: benchmark(seed, False), false=ids("kun19", "benchmark_visible")),
    Kind("slow phases", lambda seed: benchmark(seed, True), true=ids("kun19", "benchmark_visible")),
    Kind("runs without contention", lambda seed: runs_of_groups(seed, 0.0), false=ids("mad17", RUNS)),
    Kind("preset laptop", simulated, true=SIMULATED, sites=10),
    Kind("runs with contention", lambda seed: runs_of_groups(seed, 1.0), true=ids("mad17", CONTENDED)),
)  # fmt: skip


@cache
def limits(kind: Kind) -> dict[str, float]:
    """Mean values of all estimates of claims at four sites eight times as long."""
    days = 8 * (28 if kind.make is quiet_climate else 10)
    wanted = {(claim.exhibit, claim.estimate): claim for claim in claims() if not claim.exact and not claim.scale}
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(10_000, 10_004):
        for made in kind.make(seed, days=days):
            for estimate in made.estimates:
                claim = wanted.get((made.id, estimate.name))
                if claim is not None and estimate.value is not None:
                    found[claim.id].append(estimate.value)
    # A share of parts that is 0 or 1 has nothing beyond it.
    return {name: float(np.mean(values)) for name, values in found.items() if set(values) - {0.0, 1.0}}


def judged(kind: Kind, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield claim, what is known of it ('false', 'true' or 'at its limit') and how it is judged at one site."""
    for made in kind.make(seed):
        for judgement in judge_claims(made.id, made.estimates):
            claim, known = judgement.claim, None
            if claim.id in kind.false or claim.id in kind.true:
                known = "false" if claim.id in kind.false else "true"
            elif kind.centred and claim.id in limits(kind):
                side = {"above" if claim.above is not None else "below": limits(kind)[claim.id]}
                moved = replace(claim, ours=False, least_n=0, **side)
                judgement, known = judge_claim(moved, {e.name: e for e in made.estimates}), "at its limit"
            if known is not None:
                yield claim.id, known, judgement.standing


def count(kind: Kind, seeds: Iterable[int]) -> Counter[tuple[str, str, str]]:
    return Counter(each for seed in seeds for each in judged(kind, seed))
