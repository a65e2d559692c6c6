"""The text of Lustre's counters: every version's own way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ioweather.core.counters.lustre_text import (
    get_param_blocks,
    parse_number,
    parse_stats,
)
from ioweather.core.errors import CorruptInput


def test_the_collector_can_use_it_without_numpy():
    code = "import ioweather.core.counters.lustre_snapshot, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("snapshot_time             1284241188.775657 secs.usecs", 1_284_241_188_775_657_000),
        ("snapshot_time             1284241188.5657 secs.usecs", 1_284_241_188_005_657_000),  # 1.8 writes no zeros
        ("snapshot_time             1572404799.950459989 secs.nsecs", 1_572_404_799_950_459_989),
        ("snapshot_time             1566017453.009677077 secs.nsecs", 1_566_017_453_009_677_077),
        ("snapshot_time             1566017453.9677077 secs.nsecs", 1_566_017_453_009_677_077),
        ("snapshot_time:         1534158712.  4567890 (secs.nsecs)", 1_534_158_712_004_567_890),
        ("snapshot_time:   1510781837", 1_510_781_837_000_000_000),
        ("snapshot_time 1510781837.5", 1_510_781_837_500_000_000),
    ],
)
def test_times(text: str, expected: int):
    assert parse_stats(text).snapshot_ns == expected


def test_lines_with_and_without_sums():
    stats = parse_stats(
        "snapshot_time             1.5 secs.usecs\n"
        "read_bytes                10 samples [bytes] 0 1048576 471987441490\n"
        "get_page                  24 samples [usec] 0 273229 411988283 2328085303377\n"
        "statfs                    5 samples [reqs]\n"
        "statfs                    9 samples [reqs]\n"
    )
    assert stats.counters["read_bytes"].total == 471_987_441_490
    assert stats.counters["statfs"].samples == 5  # the first counts clients' requests
    assert stats.counters["statfs"].total is None
    assert stats.start_ns is None


def test_what_2_15_adds():
    stats = parse_stats(
        "snapshot_time             1684948453.142852820 secs.nsecs\n"
        "start_time                1684946875.004329012 secs.nsecs\n"
        "elapsed_time              1577.638523808 secs.nsecs\n"
        "write_bytes               7 samples [bytes] 4096 4194304 16777216 70368744177664\n"
        "write                     7 samples [usecs] 100 900 3500 2000000\n"
    )
    assert stats.start_ns == 1_684_946_875_004_329_012
    assert stats.counters["write"].total == 3500
    assert stats.counters["write"].unit == "usecs"


def test_what_is_broken_is_refused_and_what_people_write_between_is_not():
    assert parse_stats("Mon Nov  5\n\nsnapshot_time 1 secs.usecs\n# done\n").counters == {}
    with pytest.raises(CorruptInput, match="not a line of Lustre stats"):
        parse_stats("snapshot_time 1 secs.usecs\nread_bytes 1x samples [bytes]\n")
    with pytest.raises(CorruptInput, match="no snapshot_time"):
        parse_stats("read_bytes 1 samples [reqs]\n")
    with pytest.raises(CorruptInput, match="not a number"):
        parse_number("many", "kbytesfree")
    assert parse_number(" 12\n", "x") == 12


def test_parameters():
    text = [
        "Mon Nov  5 10:00:00", "obdfilter.fs-OST0000.stats=", "snapshot_time 1 secs.usecs", "a 1 samples [reqs]",
        "obdfilter.fs-OST0000.kbytesfree=17", "mdt.fs-MDT0000.job_stats=job_stats:", '- job_id: "a.b=c"',
        "version=2.15.3",
    ]  # fmt: skip
    assert list(get_param_blocks(text)) == [
        ("obdfilter.fs-OST0000.stats", "snapshot_time 1 secs.usecs\na 1 samples [reqs]"),
        ("obdfilter.fs-OST0000.kbytesfree", "17"),
        ("mdt.fs-MDT0000.job_stats", 'job_stats:\n- job_id: "a.b=c"'),
        ("version", "2.15.3"),
    ]
    assert list(get_param_blocks([*text[:3], None])) == []


# --- real servers ---------------------------------------------------------------------------------------------------


def test_every_stats_file_of_every_version(samples: Path, own_samples: Path):
    paths = [p for name in ("stats", "md_stats") for p in (samples / "lustre").rglob(name) if "lnet" not in p.parts]
    assert len(paths) == (4 if samples == own_samples else 60)
    for path in paths:
        text = path.read_text()
        stats = parse_stats(text, str(path))
        lines = {line.split()[0] for line in text.splitlines()} - {"snapshot_time"}
        assert set(stats.counters) == lines, path
        assert 1.2e18 < stats.snapshot_ns < 1.8e18
        for line in text.splitlines()[1:]:
            fields = line.split()
            if line == next(other for other in text.splitlines() if other.split()[0] == fields[0]):
                counter = stats.counters[fields[0]]
                assert counter.samples == int(fields[1])
                assert counter.total == (int(fields[6]) if len(fields) >= 7 else None)


def test_a_name_of_many_dots_is_no_parameter_and_found_out_at_once():
    assert list(get_param_blocks(["a" + ".a" * 50_000])) == []
    assert list(get_param_blocks(["a" + ".a" * 3 + "=1"])) == [("a.a.a.a", "1")]
