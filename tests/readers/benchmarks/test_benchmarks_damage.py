"""Whatever happens to a file, a reader gives rows of its tables or an error of its own, and never invents figures."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioweather.core.contracts import ReadContext, Source
from ioweather.core.errors import SourceError
from ioweather.readers.reader_catalogue import SOURCES

CONTEXT = ReadContext(zone=ZoneInfo("UTC"))
IOR = b"""IOR-3.0.1: MPI Coordinated Test of Parallel I/O

Began: Fri Mar 22 12:41:45 2019
Command line used: ior -vv
Machine: Linux n1

Test 0 started: Fri Mar 22 12:41:45 2019
Summary:
\tapi                = POSIX
\tclients            = 16 (8 per node)
\trepetitions        = 1
\taggregate filesize = 16 MiB

access    bw(MiB/s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ---------- ---------  --------   --------   --------   --------   ----
Commencing write performance test: Fri Mar 22 12:41:45 2019
write     143.22     1024.00    256.00     0.085481   0.086161   0.108553   0.111720   0
read      9049       1024.00    256.00     0.001146   0.001161   0.000643   0.001768   0

Max Write: 143.22 MiB/sec (150.17 MB/sec)
Max Read:  9049.20 MiB/sec (9488.77 MB/sec)

Finished: Fri Mar 22 12:41:46 2019
"""
MDTEST = b"""-- started at 11/15/2026 07:04:40 --

mdtest-4.1.0+dev was launched with 8 total task(s) on 1 node(s)
Path                : /fast/md
8 tasks, 1600 files

SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   File creation               26444.029      26444.029      26444.029          0.000
   File stat                  201691.654     201691.654     201691.654          0.000
-- finished at 11/15/2026 07:04:42 --
"""
IO500 = b"""[run]
procs           = 640
; START 2024-05-03 09:25:48
[ior-easy-write]
t_start         = 2024-05-03 09:25:48
score           = 352.803032
t_delta         = 386.6981
t_end           = 2024-05-03 09:32:15
[SCORE]
MD              = 192.355126
BW              = 122.312630
SCORE           = 153.386640
; END 2024-05-03 10:17:13
"""
SAMPLES = {"ior": IOR, "mdtest": MDTEST, "io500": IO500}


def survives(source: Source, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        for table, frame in source.read(path, CONTEXT):
            assert table in source.tables
            for row in frame.records():
                assert row.get("bytes_per_s") is None or row["bytes_per_s"] >= 0
    except SourceError as error:
        assert error.reason  # noqa: PT017


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_are_sound(name: str, tmp_path: Path) -> None:
    path = tmp_path / "whole"
    path.write_bytes(SAMPLES[name])
    assert SOURCES[name].detect(SAMPLES[name], path) > 0.5
    assert {table for table, _ in SOURCES[name].read(path, CONTEXT)} == {"benchmarks", "events"}


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cut_and_changed_bytes(name: str, tmp_path: Path, data: st.DataObject) -> None:
    sample = bytearray(SAMPLES[name])
    for _ in range(data.draw(st.integers(0, 6))):
        sample[data.draw(st.integers(0, len(sample) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(sample)))
    survives(SOURCES[name], tmp_path / "damaged", bytes(sample[:cut]))


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lines_in_any_order(name: str, tmp_path: Path, data: st.DataObject) -> None:
    lines = SAMPLES[name].splitlines(keepends=True)
    survives(SOURCES[name], tmp_path / "shuffled", b"".join(data.draw(st.permutations(lines))))


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_and_noise(name: str, tmp_path: Path) -> None:
    for noise in (b"", b"\n" * 1000, bytes(range(256)) * 40, SAMPLES[name] * 3):
        survives(SOURCES[name], tmp_path / "noise", noise)
