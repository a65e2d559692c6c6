"""Programs of the pairs, recorded and written as a Darshan log: counted as they were made."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from ioweather.readers.darshan.darshan_reader import read_log

PAIRS = Path(__file__).resolve().parents[3] / "benchmarks" / "pairs"


def load(name: str):
    if str(PAIRS) not in sys.path:
        sys.path.insert(0, str(PAIRS))
    spec = importlib.util.spec_from_file_location(f"pairs_{name}", PAIRS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
