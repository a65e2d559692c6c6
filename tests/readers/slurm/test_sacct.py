"""sacct text and JSON: nothing lost, names with delimiters put right, refusals that say what to do."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import concat
from ioweather.core.units import NS, zone_named
from ioweather.ingestion.reading import Reading, read_file
from ioweather.readers.slurm import SACCT, expand, parse_identity

UTC = ReadContext(zone=zone_named("UTC"))
# What one real cluster printed of the same jobs.
DUMPS = ("sacct.json.gz", "sacct_all_delim_x1f.txt", "sacct_all_parsable2.txt", "sacct_core.txt", "sacct_dups.txt")
HEADER = "JobID|JobIDRaw|JobName|User|Account|State|Submit|Start|End|NNodes|NCPUS|NodeList"


def read(path: Path, context: ReadContext = UTC) -> list[dict]:
    return concat([frame for _, frame in SACCT.read(path, context)]).records()


def write(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def row(
    job_id="7", raw=None, name="sim", state="COMPLETED", times=("06:27:47", "06:27:50", "06:28:00"), nodes="n[1-2]"
):
    moments = [f"2026-11-15T{t}" if t[0].isdigit() else t for t in times]
    return "|".join([job_id, raw or job_id, name, "ruser1", "climate", state, *moments, "2", "8", nodes])


@pytest.mark.parametrize("name", ["fail|pipe", "|", "a|b|c", "|x", "x|", "a|2026-11-15T06:27:47|b", "7|7"])
def test_a_delimiter_in_a_name_is_put_right(tmp_path, name):
    (job,) = read(write(tmp_path, row(name=name)))
    assert job["name"] == name
    assert job["state"] == "COMPLETED"


def test_a_row_that_reads_two_ways_is_refused(tmp_path):
    header = HEADER.replace("JobName|", "JobName|Comment|")
    with pytest.raises(CorruptInput, match="ways to read"):
        read(write(tmp_path, row(name="a|b|c"), header=header))


def test_ids_of_arrays_and_heterogeneous_jobs_and_steps():
    for text, job_id, step, array, het, plain in [
        ("22_1", "22_1", "", 22, None, None),
        ("22_[3-8%2]", "22_[3-8%2]", "", 22, None, None),
        ("22_1.batch", "22_1", "batch", 22, None, None),
        ("43+1.0", "43+1", "0", None, 1, None),
        ("36", "36", "", None, None, 36),
        ("36.extern", "36", "extern", None, None, 36),
    ]:
        identity = parse_identity(text)
        assert identity is not None
        assert (identity.job_id, identity.step, identity.array_job_id, identity.het_offset, identity.plain) == (
            job_id, step, array, het, plain,
        )  # fmt: skip
    assert parse_identity("sim") is None


def test_states_and_times_of_jobs_that_never_ran(tmp_path):
    jobs = read(
        write(
            tmp_path,
            row("1", state="CANCELLED by 0", times=("06:00:00", "None", "06:01:00")),
            row("2", state="PENDING", times=("06:00:00", "Unknown", "Unknown"), nodes="None assigned"),
        )
    )
    assert [(j["state"], j["start_ns"], j["nodes"]) for j in jobs] == [
        ("CANCELLED by 0", None, "n1,n2"),
        ("PENDING", None, None),
    ]
    assert jobs[1]["end_ns"] is None


def test_missing_fields_are_named_with_the_command_to_run(tmp_path):
    with pytest.raises(CorruptInput, match=r"lacks End.*sacct -a -P"):
        read(write(tmp_path, header="JobID|State|Start|Submit"))


def test_without_submit_the_start_stands_in(tmp_path):
    path = write(tmp_path, "7|COMPLETED|100|110", "8|PENDING|Unknown|Unknown", header="JobID|State|Start|End")
    frames = []
    with pytest.raises(CorruptInput, match=r"skipped 1 jobs without Submit and Start; first: 8"):
        frames.extend(frame for _, frame in SACCT.read(path, UTC))
    (job,) = concat(frames).records()
    assert (job["submit_ns"], job["start_ns"], job["end_ns"]) == (100 * NS, 100 * NS, 110 * NS)


@pytest.mark.parametrize("qos", ["normal|", ""])
def test_dumps_of_open_xdmod_have_no_header(tmp_path, qos):
    line = (
        f"22_3|25|big|batch|{qos}acct|grp|100|ann|501|2026-01-02T03:04:05|2026-01-02T03:04:05|2026-01-02T03:05:00|"
        "2026-01-02T03:06:00|00:01:00|0:0|COMPLETED|2|8|8|1000Mc|gres:gpu:1|01:00:00|n[1-2]|a|name"
    )
    path = write(tmp_path, line.replace("22_3", "22_4"), header=line)
    assert SACCT.detect(path.read_bytes(), path) == 0.9
    jobs = read(path)
    assert [job["job_id"] for job in jobs] == ["22_3", "22_4"]
    assert (jobs[0]["raw_job_id"], jobs[0]["uid"], jobs[0]["name"], jobs[0]["nodes"]) == (25, 501, "a|name", "n1,n2")


def json_job(**more):
    plain = {"job_id": 29, "account": "a", "user": "u", "name": "n", "nodes": "n1", "allocation_nodes": 1,
             "association": {}, "array": {"job_id": 29, "task_id": {"set": False}, "task": ""},
             "het": {"job_id": 0, "job_offset": {"set": False}}, "state": {"current": ["RUNNING"]}, "steps": [],
             "time": {"submission": 100, "start": 101, "end": 0}, "tres": {"allocated": []}}  # fmt: skip
    return plain | more


def test_json_is_recognised_by_its_shape(tmp_path):
    """Slurm is named behind the jobs, which may be larger than what is looked at."""
    path = tmp_path / "s.json"
    first = json_job(script="#!/bin/sh\n" * 40_000)
    path.write_text(json.dumps({"jobs": [first], "meta": {"slurm": {"cluster": "big"}}}))
    assert SACCT.detect(path.read_bytes()[: 64 << 10], path) == 0.95
    (job,) = read(path, ReadContext())
    assert (job["cluster"], job["job_id"], job["array_job_id"]) == ("big", "29", None)
    waiting = json_job(array={"job_id": 29, "task_id": {"set": False}, "task": "3-8"})
    path.write_text(json.dumps({"jobs": [waiting]}))
    (job,) = read(path, ReadContext())
    assert (job["job_id"], job["array_job_id"]) == ("29_[3-8]", 29)


def test_json_of_squeue_is_refused_as_what_it_is(tmp_path):
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"jobs": [{"job_id": 1, "job_state": ["RUNNING"]}], "meta": {"slurm": {}}}))
    with pytest.raises(CorruptInput, match=r"squeue.*sacct --allusers --json"):
        read(path, ReadContext())


def test_a_cut_file_keeps_what_came_before(tmp_path):
    path = write(tmp_path, row(), row("8"))
    whole = path.read_text()
    for end in (-40, -2, -1):  # in the middle of the last field, and before its line end: 128 may have become 1
        path.write_text(whole[:end])
        *pieces, outcome = read_file(path, 0, Reading(UTC))
        assert (outcome.status, outcome.reason) == ("partial", "truncated_input")
        assert "line 3" in outcome.message
        assert concat([frame for *_, frame in pieces]).rows == 1


def test_host_lists():
    assert expand("n[1-3,07]-ib[0-1],login") == [
        "n1-ib0", "n1-ib1", "n2-ib0", "n2-ib1", "n3-ib0", "n3-ib1", "n07-ib0", "n07-ib1", "login",
    ]  # fmt: skip
    assert expand("nid[00998-01001]") == ["nid00998", "nid00999", "nid01000", "nid01001"]
    assert expand("None assigned") == []
    assert expand("n[x]") == ["n[x]"]
    assert expand("n[1-99999999]") == ["n[1-99999999]"]


@given(st.text(max_size=200))
def test_garbage_behind_a_header_is_refused_by_name(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("g") / "x"
    path.write_text(HEADER + "\n" + text, encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(SourceError):
        list(SACCT.read(path, UTC))


def test_json_of_newer_versions(tmp_path):
    def number(value):
        return {"set": True, "infinite": False, "number": value}

    body = {
        "meta": {"slurm": {"release": "23.11.4"}},
        "jobs": [
            {"job_id": 29, "cluster": "c", "account": "a", "user": "u", "name": "arr",
             "nodes": "n[1-2]", "allocation_nodes": 2,
             "array": {"job_id": 22, "task_id": number(2)}, "het": {"job_id": 0, "job_offset": {"set": False}},
             "restart_cnt": 1, "state": {"current": ["TIMEOUT"]},
             "time": {"submission": 100, "start": number(110), "end": number(0)},
             "tres": {"allocated": [{"type": "cpu", "count": 4}]},
             "steps": [{"step": {"id": "29.batch", "name": "batch"}, "state": ["RUNNING"],
                        "time": {"start": number(111), "end": number(120)},
                        "nodes": {"count": 1, "range": "n1", "list": ["n1"]}, "tres": {"allocated": []}}]},
        ],
    }  # fmt: skip
    path = tmp_path / "s.json"
    path.write_text(json.dumps(body))
    assert SACCT.detect(path.read_bytes(), path) == 0.95
    job, step = read(path, ReadContext())
    assert (job["job_id"], job["raw_job_id"], job["state"], job["restart"]) == ("22_2", 29, "TIMEOUT", 1)
    assert (job["end_ns"], job["cpu_count"], job["nodes"]) == (None, 4, "n1,n2")
    assert (step["step"], step["start_ns"]) == ("batch", 111 * 10**9)


@pytest.mark.shared
def test_the_real_cluster_reads_the_same_from_every_dump(shared_data, tmp_path):
    _check_that_overlapping_dumps_in_any_order_are_one_accounting(shared_data, tmp_path)
    folder = shared_data / "slurm"
    dumps = {name: read(folder / name) for name in DUMPS}
    assert {name: len(rows) for name, rows in dumps.items()} == {
        "sacct.json.gz": len(dumps["sacct.json.gz"]),
        "sacct_all_delim_x1f.txt": 140,
        "sacct_all_parsable2.txt": 140,
        "sacct_core.txt": 140,
        "sacct_dups.txt": 142,
    }
    assert dumps["sacct_all_delim_x1f.txt"] == dumps["sacct_all_parsable2.txt"], "names with pipes are put right"
    key = lambda r: (r["job_id"], r["step"], r["submit_ns"])  # noqa: E731
    text = {key(r): r for r in dumps["sacct_all_delim_x1f.txt"]}
    document = {key(r): r for r in dumps["sacct.json.gz"]}
    for identity, row_ in text.items():
        other = document[identity]
        for name in ("raw_job_id", "start_ns", "end_ns", "node_count", "array_job_id", "het_offset", "account"):
            assert row_[name] == other[name], (identity, name)
    with gzip.open(folder / "sacct.json.gz") as file:
        jobs = json.load(file)["jobs"]
    assert len(document) == len(jobs) + sum(len(job["steps"]) for job in jobs)


@pytest.mark.parametrize("order", [1, -1])
def test_a_dump_without_the_cluster_joins_the_one_with_it(tmp_path, order):
    from ioweather.ingestion.ingest import ingest
    from ioweather.lake.lake import open_lake

    header = "JobID|JobIDRaw|{}State|Submit|Start|End\n"
    dumps = [
        header.format("") + "7|7|RUNNING|100|101|Unknown\n8|8|COMPLETED|100|101|109\n",
        header.format("Cluster|") + "7|7|big|COMPLETED|100|101|109\n7|7|small|COMPLETED|150|151|159\n",
    ]
    lake = open_lake(tmp_path / "lake", create=True)
    for number, dump in enumerate(dumps[::order]):
        (tmp_path / f"{number}.txt").write_text(dump)
        assert not ingest(lake, [tmp_path / f"{number}.txt"]).bad
    (tmp_path / "again.txt").write_text(dumps[0] + "\n")  # the same rows in another file
    ingest(lake, [tmp_path / "again.txt"])
    with lake.snapshot() as snapshot:
        rows = snapshot.query("SELECT cluster, job_id, state FROM jobs ORDER BY ALL").fetchall()
    assert rows == [("big", "7", "COMPLETED"), ("cluster", "8", "COMPLETED"), ("small", "7", "COMPLETED")]


def _check_that_overlapping_dumps_in_any_order_are_one_accounting(shared_data, tmp_path):
    from ioweather.ingestion.ingest import ingest
    from ioweather.lake.lake import open_lake

    counts = []
    for order in (1, -1):
        lake = open_lake(tmp_path / f"lake{order}", create=True)
        for path in [shared_data / "slurm" / name for name in DUMPS[::2]][::order]:
            context = ReadContext(zone=zone_named("UTC"), cluster="rtest")
            assert not ingest(lake, [path], context=context).bad
        with lake.snapshot() as snapshot:
            counts.append(
                snapshot.query(
                    "SELECT count(*), count(raw_job_id), sum(end_ns - start_ns)::BIGINT FROM jobs"
                ).fetchall()
            )
    assert counts[0] == counts[1]
    assert counts[0][0][0] == 142, "140 rows and the two of the requeued job's first run"


@pytest.mark.parametrize(
    "text",
    ["n[1-9999][1-9999]", "n" + "[0-9]" * 40, "n[" + "1-150000," * 500 + "7]", "n[1-" + "9" * 5000 + "]", "n[[1-2]"],
)
def test_a_list_of_more_hosts_than_there_are_stays_as_it_is(text):
    assert expand(text) == [text]
