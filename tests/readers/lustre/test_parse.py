"""The text of Lustre's counters: every version's own way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.core.counters.lustre_text import (
    parse_number,
    parse_stats,
)
from ioweather.core.errors import CorruptInput


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


def test_what_is_broken_is_refused_and_what_people_write_between_is_not():
    assert parse_stats("Mon Nov  5\n\nsnapshot_time 1 secs.usecs\n# done\n").counters == {}
    with pytest.raises(CorruptInput, match="not a line of Lustre stats"):
        parse_stats("snapshot_time 1 secs.usecs\nread_bytes 1x samples [bytes]\n")
    with pytest.raises(CorruptInput, match="no snapshot_time"):
        parse_stats("read_bytes 1 samples [reqs]\n")
    with pytest.raises(CorruptInput, match="not a number"):
        parse_number("many", "kbytesfree")
    assert parse_number(" 12\n", "x") == 12


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
