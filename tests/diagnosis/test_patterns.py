"""What a run did, and where it differs from its group."""

from __future__ import annotations

import numpy as np
from planted_jobs import MIB, planted

from ioweather.diagnosis.comparison_pool import (
    FACTORS,
    describe_changes,
    find_patterns,
    list_changes,
    match_pattern,
    usual_pattern,
)


def patterns(*jobs):
    base = {"read": 512 * MIB, "read_count": 512, "files": 4, "io_rank_count": 4}
    return find_patterns(planted([base | job for job in jobs])["job_io"])


def test_the_usual_is_what_most_do():
    table = patterns({}, {}, {"read_count": 8192}, {"read_count": 530}, {"read_count": 8192})
    usual = usual_pattern(table)
    assert match_pattern(table, usual).tolist() == [True, True, False, True, False]


def test_what_changed_is_named():
    table = patterns({}, {"read_count": 32768, "files": 9, "seek_count": 32768})
    columns = tuple(np.flatnonzero(np.abs(table[1] - table[0]) > FACTORS).tolist())
    words = describe_changes(list_changes(table[1], table[0], columns))
    assert words[0] == "mean request size 16 KiB, usually 1 MiB"
    assert words[1] == "files 9, usually 4"
    assert len(words) == 2 or words[2].startswith("seeks per operation")
