"""Ranking, the floor, all changes together, and bounds that hold whatever a log says."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.facility import Facility, _FileSystem
from ioweather.core.units import MIB
from ioweather.job_io.advisor.advise import Advised, advice_facts, advise
from ioweather.job_io.advisor.expected_savings import Advice, Saving
from ioweather.job_io.advisor.profile import profile_of
from ioweather.job_io.view import view_of_log
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.writer import new_records, write_log
from ioweather.ui.cli.main import run
from planted_advice import each, own, requests, shared, striped, view_of
from planted_logs import JOB

KIB = 1 << 10


def advice(name, seconds, part="requests", matters=True):
    return Advice(name, name, "random", part, "", seconds, Saving(seconds, 0.0, seconds, 0, 0), "", ("x",), matters)


def check_bounds(advised: Advised) -> None:
    most = min(advised.io_seconds or 0.0, advised.run_seconds or np.inf)
    ranks = [found.stated_seconds for found in advised.patterns]
    assert ranks == sorted(ranks, reverse=True)
    seconds = [found.seconds for found in advised.patterns]
    assert all(np.isfinite(value) and 0.0 <= value <= most for value in seconds)
    assert 0.0 <= advised.together_seconds <= (advised.io_seconds or 0.0)
    assert all(found.matters == (found.stated_seconds >= advised.floor_seconds > 0) for found in advised.patterns)


def test_the_costliest_comes_first(tmp_path):
    rows = [own(rank, **requests("WRITE", 4000, 16 * KIB, 20.0, RW_SWITCHES=2000)) for rank in range(4)]
    view = view_of(tmp_path / "a.darshan", {"POSIX": rows})
    advised = advise(view)
    assert [a.name for a in advised.worth] == ["small_requests", "read_write_switches"]
    assert advised.floor_seconds == 1.0
    check_bounds(advised)


def test_the_facility_sets_ceiling_and_rates(tmp_path):
    rows = [own(0, **requests("WRITE", 256, 4 * MIB, 20.0))]
    view = view_of(tmp_path / "a.darshan", {"POSIX": rows})
    scratch = _FileSystem("scratch", mounts=("/scratch",), peak_bytes_per_s=102.4 * MIB)
    slow = replace(view, facility=Facility(filesystems=(scratch,)))
    # 1 GiB takes 10 s at the peak: more than a quarter of what one process needed.
    assert next(a for a in advise(slow).patterns if a.name == "rank_zero").model_seconds == pytest.approx(10.0)
    limited = replace(view, facility=Facility(node_limit_bytes_per_s=128.0 * MIB))
    assert profile_of(limited).ceiling == (128.0 * MIB, "facility.toml")


def test_the_advice_on_a_log_does_not_depend_on_a_lake_of_another_site(tmp_path, capsys):
    view_of(tmp_path / "a.darshan", {"POSIX": [own(0, **requests("WRITE", 256, 4 * MIB, 20.0))]})

    def advice(*lake: str) -> list[object]:
        assert run(["job", str(tmp_path / "a.darshan"), "--json", *lake]) == 0
        result = json.loads(capsys.readouterr().out)["result"]
        return [result["seen"], result["worth"]]

    def site(mount: str) -> str:
        """A lake of a facility with slow storage at this mount."""
        root = tmp_path / mount.strip("/")
        open_lake(root, create=True)
        limits = f"peak_bytes_per_s = {102.4 * MIB}"
        text = f'node_limit_bytes_per_s = {64.0 * MIB}\n[filesystem.far]\nmounts = ["{mount}"]\n{limits}\n'
        (root / "facility.toml").write_text(text)
        return str(root)

    assert advice("--lake", site("/elsewhere")) == advice()
    assert advice("--lake", site("/scratch")) != advice()


def test_no_advice_moves_bytes_faster_than_the_servers_did(tmp_path):
    """1,000 MiB in small requests on two targets: 20 s, of which ten remain at the 50 MiB/s that samples show."""
    rows = each(**requests("WRITE", 16_000, 16 * KIB, 20.0))
    view = replace(view_of(tmp_path / "a.darshan", {"POSIX": rows}), log=None, target_count=2)
    default, sampled = (
        next(a for a in advise(v).patterns if a.name == "small_requests")
        for v in (view, replace(view, target_bytes_per_s=50.0 * MIB))
    )
    assert default.model_seconds > 18.0
    assert sampled.model_seconds == pytest.approx(10.0, rel=0.01)
    assert "the servers' samples" in sampled.evidence


def test_the_layout_in_the_log_bounds_the_saving(tmp_path):
    """8 GiB on one target, which did 819 MiB/s here: no request size makes it much faster."""
    row = shared(10.0, 9.9, **requests("WRITE", 524_288, 16 * KIB, 40.0, OPENS=4))
    view = view_of(tmp_path / "a.darshan", {"POSIX": [row], "LUSTRE": striped(1)})
    found = next(a for a in advise(view).patterns if a.name == "no_mpiio")
    assert (found.model_seconds, found.saving.tried) == (0.0, False)
    assert found.saving.high == pytest.approx(10.0 / 3)


@pytest.mark.parametrize("seed", range(40))
def test_no_advice_claims_more_than_the_io_took(tmp_path, seed):
    """Whatever the counters hold: plausible ones for even seeds, absurd ones for odd."""
    rng = np.random.default_rng(seed)
    modules = {}
    for module in ("MPI-IO", "POSIX", "STDIO"):
        made = new_records(module, 12)
        for name in (made.dtype.names or ())[2:]:
            if seed % 2:
                odd = [0, 1e-9, 3.0, 1e200, -1, np.nan, np.inf] if made.dtype[name].kind == "f" else [0, 7, -1, 1 << 62]
                made[name] = rng.choice(odd, 12)
            elif made.dtype[name].kind == "f":
                made[name] = rng.choice([0.0, 1.0], 12) * rng.exponential(10.0, 12)
            else:
                made[name] = (rng.choice([0, 1], 12) * 10 ** rng.uniform(0, 9, 12)).astype(np.int64)
        made["id"], made["rank"] = rng.integers(1, 6, 12), rng.integers(-1, 4, 12)
        modules[module] = made
    path = tmp_path / "odd.darshan"
    write_log(path, JOB, modules, {i: f"/scratch/{i}" for i in range(1, 6)})
    check_bounds(advise(view_of_log(path, "keep")))


@pytest.mark.parametrize("every", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_sample_logs_are_advised(samples, every):
    logs = sorted(path for path in samples.rglob("*.darshan*") if path.is_file() and "id25476_" not in path.name)
    assert len(logs) >= 100
    for path in logs[::every]:
        check_bounds(advise(view_of_log(path, "keep")))


def small_writes_model(path, **more):
    rows = [own(rank, **requests("WRITE", 4000, 16 * KIB, 20.0, **more)) for rank in range(4)]
    (found,) = [a for a in advise(view_of(path, {"POSIX": rows})).patterns if a.name == "small_requests"]
    return found.model_seconds


def test_a_sync_after_the_last_write_is_not_what_requests_cost(tmp_path):
    """Of 20 s of writing 15 passed after the last write: only a sync can have taken them."""
    span = {"F_WRITE_START_TIMESTAMP": 10.0, "F_WRITE_END_TIMESTAMP": 15.0}
    whole, synced = (small_writes_model(tmp_path / f"{n}.darshan", **span, FSYNCS=n) for n in (0, 1))
    assert whole - synced == pytest.approx(15.0, rel=0.01)


def test_writes_to_memory_promise_their_system_calls(tmp_path):
    """A million writes of 8 microseconds: no counter tells them from waiting for the device."""
    rows = [own(0, **requests("WRITE", 1_000_000, 1 * KIB, 8.0))]
    view = view_of(tmp_path / "a.darshan", {"POSIX": rows}, nprocs=1)
    (found,) = [a for a in advise(view).patterns if a.name == "small_requests"]
    assert found.model_seconds == pytest.approx(1.0, rel=0.01)


def test_a_change_never_tried_comes_last_and_is_said_as_such(tmp_path):
    """Few stripes have no pair."""
    untried = replace(advice("striping", 0.0, "layout"), saving=Saving(0.0, 0.0, 30.0, 0, 0, tried=False))
    assert untried.stated_seconds == 30.0
    advised = Advised((advice("small_requests", 5.0), replace(untried, dimension="imbalance")), 40.0, 100.0, 1.0)
    assert advised.together_seconds == 5.0
    group = advice_facts(advised)[0]
    assert next(fact.value for fact in group.facts if fact.name == "striping") == "up to 30 s"
    assert "such change has been measured" in next(f.note for f in group.facts if f.name == "striping_interval")
