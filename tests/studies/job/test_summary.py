"""The screen of one job: every number on it, from logs whose answers were planted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.core.results import Answer, Fact
from ioweather.studies.job.heat_map import SCREEN
from ioweather.studies.job.summary import bin_labels, job_answer
from ioweather.studies.job.view import JobView
from ioweather.tables import concat, encode_text
from ioweather.workflows.job_log import view_of_log
from planted_logs import MIB, NS, START, write_climate, write_empty


def view(path, paths="keep") -> JobView:
    return view_of_log(path, paths, SCREEN)


def fact(answer: Answer, label: str) -> Fact:
    return next(f for group in answer.facts for f in group.facts if f.label == label)


def labels(answer: Answer) -> list[str]:
    return [f.label for group in answer.facts for f in group.facts]


@pytest.fixture(scope="module")
def climate(tmp_path_factory):
    return view(write_climate(tmp_path_factory.mktemp("logs") / "climate.darshan"))


@pytest.fixture(scope="module")
def answer(climate) -> Answer:
    return job_answer(climate)


def test_the_headline_says_it_all(answer):
    # D: rank 3 spends 4 + 0.5 + 0.25 s on its own file, the slowest rank 5 s on the shared one.
    assert answer.headline == (
        "climate on 4 processes took 100 s; I/O took 9.75 s of it (9.75%): 2.00 MiB read at 1.85 MiB/s, 12 MiB written "
        "at 1.31 MiB/s."
    )


def test_who_ran_it(answer):
    assert fact(answer, "id").note == "4711 of uid 1000, started 2023-11-14 22:13:20Z"
    assert fact(answer, "command").note == "/opt/bin/climate --grid 9"
    assert "not known" in fact(answer, "nodes").note


def test_time_of_all_processes(answer):
    # 400 process-seconds; the POSIX calls below MPI-IO do not count again.
    assert [group.title for group in answer.facts][1] == "Time of all processes (4 x 100 s)"
    assert fact(answer, "reading").value == pytest.approx((4 * 0.5 + 0.5) / 400)
    assert fact(answer, "writing").value == pytest.approx((12 + 1 + 2 + 3 + 4) / 400)
    assert fact(answer, "metadata").value == pytest.approx((4 + 4 * 0.25) / 400)
    assert fact(answer, "all else").value == pytest.approx(1 - 29.5 / 400)
    assert "waiting" not in labels(answer)
    assert all(f.share == f.value for f in answer.facts[1].facts)


def test_speed(answer):
    # Reading: rank 0 reads 0.5 s by POSIX (a third of its metadata is of reads) and 0.5 s by STDIO.
    assert fact(answer, "read").value == pytest.approx((2 * MIB + 300) / (1.0 + 0.25 / 3))
    # Writing: rank 3 writes 4 s with two thirds of its metadata; the shared file takes its slowest rank 5 s.
    assert fact(answer, "write").value == pytest.approx(12 * MIB / (4 + 0.25 * 2 / 3 + 5))
    assert fact(answer, "read").share == 1.0
    assert fact(answer, "write").share == pytest.approx(fact(answer, "write").value / fact(answer, "read").value)
    assert "per compute node" not in labels(answer)


def test_processes_per_node_give_the_rate_per_node(climate):
    known = job_answer(replace(climate, processes_per_node=3))
    assert fact(known, "nodes").note == "2 (by the processes per node you gave)"
    assert fact(known, "per compute node").value == pytest.approx((14 * MIB + 300) / 9.75 / MIB / 2)


def test_files(answer):
    counts = {f.label: (f.value, f.note) for f in answer.facts[3].facts}
    assert counts == {
        "unique": (5, "2.00 MiB read, 4 MiB written"),
        "shared": (1, "8 MiB written"),
        "only read": (1, ""),
        "only written": (1, ""),
        "read and written": (4, ""),
    }
    assert fact(answer, "unique").share == pytest.approx(5 / 6)


def test_accesses(answer):
    size = fact(answer, "100 KiB to 1 MiB")  # eight collective writes, two writes and a read per process
    assert (size.value, size.share, size.note) == (20, 1.0, "4 reads, 16 writes")
    assert fact(answer, "sequential").value == pytest.approx(5 / 14)
    assert fact(answer, "sequential").note == "consecutive 35.7%"
    assert fact(answer, "aligned in the file").value == pytest.approx(1 - 4 / 14)


def test_the_heat_map_holds_what_was_recorded(answer):
    (exhibit,) = answer.exhibits
    chart = exhibit.charts[0]
    assert chart.title == "Bytes by rank (down) and time (across), POSIX"
    cells = {(rank, seconds): moved for seconds, rank, moved in chart.table.rows}
    assert len(cells) == 40
    assert cells[2, 0.0] == MIB
    assert cells[2, 30.0] == MIB / 2
    assert sum(cells.values()) == 6 * MIB


def test_a_run_without_files(tmp_path):
    empty = job_answer(view(write_empty(tmp_path / "e.darshan")))
    assert empty.headline == "climate on 4 processes took 100 s and used no file."
    assert [group.title for group in empty.facts] == ["Job"]
    assert not empty.exhibits
    assert not empty.findings


def test_a_single_process(tmp_path):
    one = view(write_climate(tmp_path / "one.darshan"))
    one = replace(one, applications=one.applications.with_columns(nprocs=one.applications.array("nprocs") // 4))
    # The rows of the other ranks stay; what counts here is the wording.
    alone = job_answer(replace(one, job_io=one.job_io.with_columns(nprocs=one.job_io.array("nprocs") // 4)))
    assert "on 1 process took" in alone.headline
    assert "Speed" in [group.title for group in alone.facts]
    assert "unique" not in labels(alone)


def test_partial_data_are_lower_bounds(tmp_path):
    partial = job_answer(view(write_climate(tmp_path / "p.darshan", partial=("POSIX", "STDIO"))))
    assert "I/O took at least 9.75 s" in partial.headline
    assert partial.findings[0].text == (
        "Partial: Darshan ran out of memory for POSIX, STDIO; figures are lower bounds."
    )


def several(tmp_path, gap=10):
    """Two logs of one job, the second `gap` seconds after the first."""
    first = view(write_climate(tmp_path / "1.darshan"))
    later = START + (100 + gap) * NS
    second = view(write_climate(tmp_path / "2.darshan", start_ns=later, end_ns=later + 50 * NS, nprocs=8))
    frames = {
        name: concat([getattr(first, name), getattr(second, name)]) for name in ("applications", "files", "job_io")
    }
    return JobView("job 4711", **frames)


def test_several_logs_of_a_job_are_added_up(tmp_path):
    merged = job_answer(several(tmp_path))
    assert merged.headline.startswith(
        "2 runs of climate on 4 to 8 processes took 2.50 min together; I/O took 19.5 s of it"
    )
    assert "4.00 MiB read" in merged.headline
    assert "24 MiB written" in merged.headline
    assert fact(merged, "id").note.endswith("over 2.67 min")
    assert merged.facts[1].title == "Time of all processes (13.3 min in all)"  # 4 x 100 s + 8 x 50 s
    assert fact(merged, "writing").value == pytest.approx(44 / 800)
    assert fact(merged, "unique").value == 10
    texts = [finding.text for finding in merged.findings]
    assert texts[0] == "2 logs of this job are added up, times too; their files are taken to differ."
    assert "Heat map: not kept in the lake; the log may have one." in texts


def test_runs_that_overlap_are_said_to(tmp_path):
    texts = [finding.text for finding in job_answer(several(tmp_path, gap=-50)).findings]
    assert "times too, though runs overlapped" in texts[0]


def old(made: JobView, seconds: int) -> JobView:
    """The same log as an older Darshan would have written it: whole seconds."""
    changes = {"log_version": encode_text(["3.21"]), "end_ns": made.applications.array("start_ns") + seconds * NS}
    applications = made.applications.with_columns(**changes)
    run = made.job_io.with_columns(run_seconds=made.job_io.array("run_seconds") * 0 + seconds)
    return replace(made, applications=applications, job_io=run)


def test_whole_seconds_make_short_runs_rough(climate):
    assert "whole seconds" in job_answer(old(climate, 15)).facts[1].title
    assert "whole seconds" not in job_answer(old(climate, 100)).facts[1].title


def test_a_run_of_no_known_length_has_no_shares(climate):
    unknown = job_answer(old(climate, 0))
    assert "took under 1 s; I/O took 9.75 s of it:" in unknown.headline
    assert unknown.facts[1].title == "Time of all processes (run time not known)"
    assert [(f.label, f.value, f.share) for f in unknown.facts[1].facts] == [
        ("reading", 2.5, None), ("writing", 22.0, None), ("metadata", 5.0, None),
    ]  # fmt: skip


def test_more_io_time_than_run_time(climate):
    assert "I/O took 9.75 s of it (all of it)" in job_answer(old(climate, 5)).headline


def test_paths_can_be_hidden(tmp_path):
    path = write_climate(tmp_path / "ann_climate.darshan")
    for policy in ("hash", "drop"):
        hidden = job_answer(view(path, policy))
        everything = repr(hidden)
        for word in ("/opt/bin", "--grid", "state.nc", "/scratch/run", "ann_"):
            assert word not in everything
        assert "climate on 4 processes" in hidden.headline


def test_a_number_for_a_name_is_anonymous(tmp_path):
    anonymous = job_answer(view(write_climate(tmp_path / "n.darshan", exe="123456")))
    assert anonymous.headline.startswith("An anonymous program on 4 processes")


def test_bins_have_names():
    names = bin_labels()
    assert (names[0], names[1], names[-1]) == ("up to 100 B", "100 B to 1 KiB", "over 1 GiB")
    assert len(names) == 10
