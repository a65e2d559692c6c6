"""Accounting of PBS, LSF and Grid Engine: each kind of line by hand, and what must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import concat
from ioweather.core.units import NS
from ioweather.ingestion.reading import choose_source
from ioweather.readers.schedulers import LSF, PBS, SGE

PBS_TEXT = (
    '03/01/2026 10:00:40;E;71[4].srv.example.org;user=ann group=domain users account="two words" jobname=a b queue=q '
    "ctime=1772359200 qtime=1772359200 etime=1772359200 start=1772359210 exec_host=n1/0-3,8+n2/0*4+n1/5 "
    "Resource_List.nodect=2 session=1 end=1772359240 Exit_status=0 resources_used.walltime=00:00:30\n"
)
LSF_TEXT = (
    '"JOB_FINISH" "10.1" 1772359240 88 501 33816603 4 1772359200 0 0 1772359210 "ann" "normal" "" "" "" "login" '
    '"/home" "" "out" "" "1772359200.88" 0 2 "2*n1" "2*n2" 64 60.0 "say ""hi""" "echo ""x""; y" '
    + " ".join(["0"] * 19)
    + ' "" "climate" 0 4 "" "" 3 0 0 "" "" "more fields of newer versions" 7\n'
)
SGE_TEXT = ":".join(
    ["all.q", "n1", "staff", "ann", "sim", "55", "sge", "0", "1772359200", "1772359210", "1772359240", "0", "0", "30"]
    + ["0"] * 17
    + [
        "climate",
        "defaultdepartment",
        "NONE",
        "1",
        "0",
        "1.0",
        "0.0",
        "0.0",
        "-l h_rt=60",
        "0.0",
        "NONE",
        "0.0",
        "0",
        "0",
    ]
)


def read(source, tmp_path: Path, text: str, **known: str) -> list[dict]:
    path = tmp_path / "accounting"
    path.write_text(text)
    assert choose_source(text.encode()[: 64 << 10], path) is source
    return concat([frame for _, frame in source.read(path, ReadContext(**known))]).records()


def pbs_run(kind, start, end=None, extra="", stamp="03/01/2026 10:00:40"):
    ended = f" end={end} Exit_status=0" if end else ""
    return f"{stamp};{kind};9.srv;user=ann jobname=j ctime=1000 start={start} exec_host=c1/0{ended}{extra}\n"


def shown(rows):
    return [(row["restart"], row["state"], row["start_ns"] // 10**9, (row["end_ns"] or 0) // 10**9) for row in rows]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # It ended, and ran again.
        ([("S", 1100), ("E", 1100, 1200), ("S", 1300), ("E", 1300, 1400)],
         [(None, "COMPLETED", 1100, 1200), (1, "COMPLETED", 1300, 1400)]),
        # PBS Pro: rerun, with the run's own times and number.
        ([("S", 1100), ("R", 1100, 1150, " run_count=1"), ("S", 1300), ("E", 1300, 1400, " run_count=2")],
         [(None, "REQUEUED", 1100, 1150), (1, "COMPLETED", 1300, 1400)]),
        # The first run is in yesterday's file: the number is printed.
        ([("S", 1300), ("E", 1300, 1400, " run_count=3")], [(2, "COMPLETED", 1300, 1400)]),
        # Still running for the second time.
        ([("S", 1100), ("E", 1100, 1200), ("S", 1300)], [(None, "COMPLETED", 1100, 1200), (1, "RUNNING", 1300, 0)]),
        # One run, told of twice.
        ([("S", 1100), ("S", 1100), ("E", 1100, 1200), ("E", 1100, 1200)], [(None, "COMPLETED", 1100, 1200)] * 2),
    ],
)  # fmt: skip
def test_pbs_runs_of_one_job(tmp_path, lines, expected):
    assert shown(read(PBS, tmp_path, "".join(pbs_run(*line) for line in lines))) == expected


def test_pbs(tmp_path):
    started = PBS_TEXT.replace(";E;", ";S;").replace(" end=1772359240 Exit_status=0", "").replace("71[4]", "72")
    queued = "03/01/2026 10:00:00;Q;71[4].srv.example.org;queue=q\n03/01/2026 10:00:00;L;license;floating hour:1\n"
    job, running = read(PBS, tmp_path, queued + PBS_TEXT + started)
    assert (job["cluster"], job["job_id"], job["raw_job_id"], job["array_job_id"]) == (
        "srv.example.org", "71[4]", 71, 71,
    )  # fmt: skip
    assert (job["user"], job["account"], job["name"], job["state"]) == ("ann", "two words", "a b", "COMPLETED")
    assert (job["submit_ns"], job["start_ns"], job["end_ns"]) == tuple(
        n * NS for n in (1772359200, 1772359210, 1772359240)
    )
    assert (job["nodes"], job["node_count"], job["cpu_count"]) == ("n1,n2", 2, 10)
    assert (running["state"], running["end_ns"], running["job_id"]) == ("RUNNING", None, "72")


def test_lsf(tmp_path):
    other = '"EVENT_ADRSV_FINISH" "10.1" 1772359240 0 "x" \n'
    (job,) = read(LSF, tmp_path, other + LSF_TEXT, cluster="big")
    assert (job["cluster"], job["job_id"], job["raw_job_id"], job["uid"]) == ("big", "88[3]", 88, 501)
    assert (job["user"], job["account"], job["name"], job["state"]) == ("ann", "climate", 'say "hi"', "COMPLETED")
    assert (job["start_ns"], job["end_ns"]) == (1772359210 * NS, 1772359240 * NS)
    assert (job["nodes"], job["node_count"], job["cpu_count"]) == ("n1,n2", 2, 4)


def test_lsf_job_that_never_started(tmp_path):
    (job,) = read(LSF, tmp_path, LSF_TEXT.replace('1772359210 "ann"', '0 "ann"').replace('2 "2*n1" "2*n2" 64', "0 32"))
    assert (job["state"], job["start_ns"], job["node_count"]) == ("CANCELLED", None, None)


def test_grid_engine(tmp_path):
    fields = SGE_TEXT.split(":")
    parallel = [*fields[:33], "mpi", "64", "2", *fields[36:]]  # task 2 of an array, on hosts that are not named
    failed = [*fields[:11], "100", "137", *fields[13:]]
    task = [*fields[:41], "1.n2", *fields[42:]]
    rows = [SGE_TEXT, *(":".join(row) for row in (parallel, failed, task))]
    one, two, three, four = read(SGE, tmp_path, "# Version: 6.2\n" + "\n".join(rows) + "\n")
    assert (one["job_id"], one["user"], one["account"], one["nodes"], one["cpu_count"]) == (
        "55",
        "ann",
        "climate",
        "n1",
        1,
    )
    assert (one["submit_ns"], one["end_ns"], one["state"]) == (1772359200 * NS, 1772359240 * NS, "COMPLETED")
    assert (two["job_id"], two["array_job_id"], two["cpu_count"], two["nodes"], two["node_count"]) == (
        "55.2", 55, 64, None, None,
    )  # fmt: skip
    assert three["state"] == "FAILED"
    assert four["step"] == "1.n2"


@pytest.mark.parametrize(
    ("source", "good", "bad", "reason"),
    [
        (PBS, PBS_TEXT, PBS_TEXT.replace("end=1772359240", "end=soon"), "end is 'soon'"),
        (PBS, PBS_TEXT, "03/01/2026 10:00:40;E;license;user=a\n", "not a job id"),
        (PBS, PBS_TEXT, "03/01/2026 10:00:40;E;9.srv;user=a jobname=b\n", "neither ctime nor start"),
        (PBS, PBS_TEXT, "nonsense\n", "expected"),
        (LSF, LSF_TEXT, LSF_TEXT[:180] + "\n", "ends after"),
        (LSF, LSF_TEXT, LSF_TEXT.replace(" 88 501 ", " x 501 "), "jobId"),
        (SGE, SGE_TEXT + "\n", SGE_TEXT.replace(":55:", ":x:") + "\n", "or more fields"),
        (SGE, SGE_TEXT + "\n", SGE_TEXT.replace("1772359200:1772359210", "0:0") + "\n", "no submit time"),
    ],
)
def test_rows_before_a_bad_line_stay(tmp_path, source, good, bad, reason):
    path = tmp_path / "accounting"
    path.write_text(good + bad)
    frames = source.read(path, ReadContext())
    assert next(frames)[1].rows == 1
    with pytest.raises(CorruptInput, match=f"line 2.*{reason}"):
        next(frames)


@pytest.mark.parametrize(("source", "text"), [(PBS, PBS_TEXT), (LSF, LSF_TEXT), (SGE, SGE_TEXT + "\n")])
def test_a_last_line_without_its_end_is_not_trusted(tmp_path, source, text):
    path = tmp_path / "accounting"
    path.write_text(text + text[:-1])
    frames = source.read(path, ReadContext())
    assert next(frames)[1].rows == 1
    with source_error("TruncatedInput", match="no line end"):
        next(frames)
