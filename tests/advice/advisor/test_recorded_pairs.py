"""Programs of the pairs, recorded and written as a Darshan log: counted as they were made."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from ioweather.sources.darshan.log import read_log

PAIRS = Path(__file__).resolve().parents[3] / "benchmarks" / "pairs"


def load(name: str):
    if str(PAIRS) not in sys.path:
        sys.path.insert(0, str(PAIRS))
    spec = importlib.util.spec_from_file_location(f"pairs_{name}", PAIRS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def events(recording, *calls):
    """(call, offset, bytes), a second apart, half a second each."""
    made = np.zeros(len(calls), recording.EVENT)
    for number, (call, offset, size) in enumerate(calls):
        made[number] = (call, 0, offset, size, number, number + 0.5)
    return made


def test_counters_are_those_of_darshan():
    recording = load("recording")
    read, write, sync = recording.READ, recording.WRITE, recording.SYNC
    row = recording.counters(events(
        recording, (recording.OPEN, 0, 0), (write, 0, 4096), (write, 4096, 4096), (write, 100_000, 200), (sync, 0, 0),
        (recording.SEEK, 0, 0), (read, 0, 100_000), (read, 0, 50), (recording.CLOSE, 0, 0), (recording.STAT, 0, 0),
    ))  # fmt: skip
    assert (row["OPENS"], row["WRITES"], row["READS"], row["SEEKS"], row["STATS"], row["FSYNCS"]) == (1, 3, 2, 1, 1, 1)
    assert (row["BYTES_WRITTEN"], row["MAX_BYTE_WRITTEN"], row["BYTES_READ"]) == (8392, 100_199, 100_050)
    assert (row["SEQ_WRITES"], row["CONSEC_WRITES"], row["SEQ_READS"]) == (2, 1, 0)
    assert (row["SIZE_WRITE_1K_10K"], row["SIZE_WRITE_100_1K"], row["SIZE_READ_0_100"]) == (2, 1, 1)
    # Darshan counts a sync as writing; open, close, seek and stat are metadata.
    assert (row["F_WRITE_TIME"], row["F_READ_TIME"], row["F_META_TIME"]) == (2.0, 1.0, 2.0)
    assert (row["RW_SWITCHES"], row["FILE_NOT_ALIGNED"]) == (1, 1)
    assert (row["ACCESS1_ACCESS"], row["ACCESS1_COUNT"]) == (4096, 2)


def test_a_file_of_all_processes_is_one_record():
    recording = load("recording")
    two = [
        recording.Recorded(events(recording, (recording.OPEN, 0, 0), *[(recording.WRITE, 0, 10)] * n), ("/d/all",))
        for n in (1, 3)
    ]
    ((path, rank, row),) = recording.rows_of(two)
    assert (path, rank, row["WRITES"], row["BYTES_WRITTEN"]) == ("/d/all", -1, 4, 40)
    assert (row["SLOWEST_RANK"], row["F_SLOWEST_RANK_TIME"], row["F_FASTEST_RANK_TIME"]) == (1, 2.0, 1.0)


def test_a_recording_cut_short_is_refused():
    recording = load("recording")
    with pytest.raises(ValueError, match="do not fit"):
        recording.parse((99).to_bytes(8, sys.byteorder))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_a_program_is_recorded_and_marked(tmp_path):
    run = load("run")
    recording = load("recording")
    program = run.Program("synced", "fsync_storm", None, 2)
    source = tmp_path / "programs.py"
    text = (PAIRS / "programs.py").read_text()
    source.write_text(text.replace("PROGRAMS: tuple[Program, ...] = (", 'PROGRAMS: tuple[Program, ...] = (\n'
                                   '    Program("synced", "fsync_storm", synced(4 * KIB, 5), 2),', 1))  # fmt: skip
    run.HERE = tmp_path
    log = run.recorded(program, "before", recording.build(tmp_path), tmp_path, tmp_path / "a.darshan")
    made = read_log(log)
    assert "not a Darshan runtime" in made.job.metadata["recorder"]
    records = made.modules["POSIX"].records
    assert sorted(records["rank"].tolist()) == [0, 1]
    assert records["POSIX_WRITES"].tolist() == [5, 5]
    assert records["POSIX_FSYNCS"].tolist() == [6, 6]
    assert records["POSIX_BYTES_WRITTEN"].tolist() == [20480, 20480]
    assert (records["POSIX_F_WRITE_TIME"] > 0).all()
