"""[collect] of facility.toml, and what runs because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.agent.settings import settings_from, sources_for
from ioweather.core.errors import UsageError
from ioweather.core.facility import parse_facility

FACILITY = parse_facility(
    {"filesystem": {"scratch": {"probes": ["/scratch/p", "/fast/p"]}, "home": {"probes": ["/home/p"]}}}
)


def test_every_key_has_a_default_and_probes_keep_their_files():
    settings = settings_from({})
    assert settings.probe.keep_files
    assert settings.probe.period_ns == 10**9


def test_one_of_many_hosts_probes_ten_times_less_often():
    pushing = {"push_url": "https://weather.example.org", "push_token_file": "/token"}
    assert settings_from(pushing).probe.period_ns == 10 * 10**9
    assert settings_from({**pushing, "probe_period": "2s"}).probe.period_ns == 2 * 10**9


def test_keys_are_read_with_their_units():
    settings = settings_from({
        "probe_period": "5s", "probe_file": "2GiB", "probe_pool": 1000, "probe_request": "4MiB", "block_period": "1s",
        "probe_targets": True, "root": "/copy", "ship_every": "1min", "spool_limit": "10MiB",
        "lustre_period": "30s", "probe_name": "shared", "probe_fill_rate": "50MiB",
    })  # fmt: skip
    assert (settings.probe.period_ns, settings.probe.file_bytes, settings.probe.pool_files) == (
        5 * 10**9,
        2 << 30,
        1000,
    )
    assert (settings.block_period_ns, settings.probe_targets, settings.root) == (10**9, True, Path("/copy"))
    assert (settings.spool_limit_bytes, settings.ship_every_ns) == (10 << 20, 60 * 10**9)


def test_named_kinds_alone(tmp_path):
    settings = settings_from({"root": str(tmp_path)})
    made = sources_for(["probe"], FACILITY, settings, "r", "n1")
    assert [source.label for source in made] == ["/scratch/p", "/fast/p", "/home/p"]
    assert [source.name for source in sources_for(["block", "lustre"], FACILITY, settings, "r")] == ["block", "lustre"]
    with pytest.raises(UsageError, match="probes"):
        sources_for(["probe"], parse_facility({}), settings, "r")


def test_without_a_name_what_is_there(tmp_path):
    settings = settings_from({"root": str(tmp_path)})
    with pytest.raises(UsageError, match="No source to collect"):
        sources_for([], parse_facility({}), settings, "r")
    (tmp_path / "proc/fs/lustre").mkdir(parents=True)
    (tmp_path / "proc/diskstats").write_text("")
    names = [source.name for source in sources_for([], FACILITY, settings, "r")]
    assert names == ["probe", "probe", "probe", "block", "lustre"]


def test_a_probe_below_a_declared_mount_needs_it():
    facility = parse_facility({"filesystem": {
        "scratch": {"probes": ["/scratch/p", "/scratch/fast/p"], "mounts": ["/scratch", "/scratch/fast"]},
        "home": {"probes": ["/homes/p"], "mounts": ["/home"]},
    }})  # fmt: skip
    made = sources_for(["probe"], facility, settings_from({}), "r", "n1")
    assert [source.required_mount for source in made] == ["/scratch", "/scratch/fast", None]
