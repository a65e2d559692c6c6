"""What a reviewer of the screen found wrong: whom the advice blames, how much it promises, what it calls a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.results import Answer
from ioweather.job_io.advisor.advise import advise, advised_answer
from ioweather.job_io.advisor.parallel_rules import _measure_overlap
from ioweather.job_io.advisor.profile import profile_of
from ioweather.job_io.outcomes import JobOutcome
from ioweather.job_io.summary import describe_filesystem, job_answer
from ioweather.job_io.view import view_of_log
from ioweather.readers.darshan.log import Module
from ioweather.readers.darshan.writer import new_records, write_log
from planted_advice import LARGE, each, independent, laid_out, own, requests, shared, view_of
from planted_logs import JOB, records

MIB = 1 << 20
SLOW = shared(20.0, 5.0, 25 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))
TURNS = {
    "MPI-IO": [shared(10.0, 9.0, **independent("WRITE", 100, LARGE, 40.0))],
    "POSIX": [shared(1.0, 0.9, **requests("WRITE", 100, LARGE, 4.0))],
}


def found(view, name):
    return next(advice for advice in advise(view).patterns if advice.name == name)


@pytest.mark.parametrize(("stripes", "who"), [(8, "one node is slow"), (2, "one node or target is slow")])
def test_a_target_is_slow_only_where_files_differ_in_targets(tmp_path, stripes, who):
    view = view_of(tmp_path / "a.darshan", {"POSIX": [SLOW], "LUSTRE": laid_out(stripes, 1)})
    assert found(view, "straggler_time").fix_lines[-1].endswith(who)


@pytest.mark.parametrize(
    ("mounts", "line"),
    [
        ((("/scratch", "nfs"), ("/lustre/fast", "lustre")), "write to /lustre/fast (Lustre)"),
        ((("/scratch", "nfs"),), "one file for each process"),
        ((("/scratch", "lustre"),), 'MPI_Info_set(info, "romio_cb_write", "enable");'),
    ],
)
def test_writes_in_turns_have_the_advice_of_their_file_system(tmp_path, mounts, line):
    assert found(view_of(tmp_path / "a.darshan", TURNS, mounts=mounts), "one_at_a_time").fix_lines[0] == line


@pytest.mark.parametrize(("length", "share"), [(0.5, 0.0), (1.5, 1.0)])
def test_the_trace_says_whether_writes_overlap(tmp_path, length, share):
    view = view_of(tmp_path / "a.darshan", TURNS)
    kinds = [("record", "i8"), ("write", "?"), ("start_seconds", "f8"), ("end_seconds", "f8")]
    segments = np.array([(0, True, start, start + length) for start in range(9)], kinds)
    trace = Module(
        "DXT_POSIX",
        1,
        False,
        np.array([(1, 0, 9, 0)], [(name, "u8") for name in ("id", "rank", "writes", "reads")]),
        segments=segments,
    )
    traced = replace(view, log=replace(view.log, modules={**view.log.modules, trace.name: trace}))
    assert _measure_overlap(profile_of(traced), 1) == share
    assert any(advice.name == "one_at_a_time" for advice in advise(traced).patterns) == (share == 0.0)


def test_reading_again_costs_no_more_than_the_later_reads(tmp_path):
    """100 x 4 MiB of a file of 100 MiB: three quarters of 40 s; a file of 2 bytes, read twice, is no part of it."""
    row = own(0, file=1, **requests("READ", 100, LARGE, 40.0, MAX_BYTE_READ=100 * MIB - 1))
    tiny = own(0, file=2, **requests("READ", 2, 2, 0.0, MAX_BYTE_READ=1))
    advice = found(view_of(tmp_path / "a.darshan", {"POSIX": [row, tiny]}, nprocs=1), "redundant_reads")
    assert advice.saving.high <= advice.model_seconds == pytest.approx(30.0)
    assert advice.evidence.endswith("were read before")
    assert advice.file == "file.1"
    several = view_of(tmp_path / "b.darshan", {"POSIX": [row, own(1, **requests("READ", 2, LARGE, 1.0))]})
    assert found(several, "redundant_reads").evidence.endswith("by this process or another")


def test_the_answer_says_that_nothing_is_worth_changing(tmp_path):
    def notes(view):
        answer = job_answer(view)
        assert isinstance(answer.result, JobOutcome)
        made: Answer = advised_answer(answer, advise(view))
        return [finding.name for finding in made.findings]

    quick = view_of(tmp_path / "a.darshan", {"POSIX": each(**requests("WRITE", 400, 16 << 10, 0.1))})
    slow = view_of(tmp_path / "b.darshan", {"POSIX": each(**requests("WRITE", 4000, 16 << 10, 20.0))})
    assert "nothing_to_change" in notes(quick)
    assert "nothing_to_change" not in notes(slow)
    cut = Module("POSIX", 4, True, records("POSIX", each(**requests("WRITE", 400, 16 << 10, 0.1))))
    assert "nothing_to_change" not in notes(view_of(tmp_path / "c.darshan", {"POSIX": cut}))


@pytest.mark.parametrize(
    ("kind", "words"), [("lustre", "Lustre"), ("nfs4", "NFS"), ("fuse.glusterfs", "GlusterFS"), ("rootfs", "")]
)
def test_the_file_system_has_its_name(tmp_path, kind, words):
    view = view_of(tmp_path / "a.darshan", {"POSIX": [SLOW]}, mounts=(("/scratch", kind),))
    assert describe_filesystem(view, view.row()) == words


def test_files_of_mpi_itself_are_not_the_jobs(tmp_path):
    names = ["/tmp/ompi.n1.7/jf.1/1/out_cid-1-3.sm", "/dev/shm/vader_segment.n1.7", "/data/out.locktest.0",
             "/dev/shm/staged.h5", "/tmp/data.sm"]  # fmt: skip
    made = new_records("POSIX", len(names))
    made["id"], made["POSIX_OPENS"] = np.arange(1, 6), 1
    path = tmp_path / "a.darshan"
    write_log(path, JOB, {"POSIX": made}, dict(enumerate(names, 1)))
    assert view_of_log(path, "keep").row()["file_count"] == 2
