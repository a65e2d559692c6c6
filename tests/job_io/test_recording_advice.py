"""Partial logs of runs like mdtest: no false comfort, lower bounds as such, and the values to set."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.job_io.advisor.advise import advise, advised_answer
from ioweather.job_io.summary import job_answer, recording_advice
from ioweather.job_io.view import view_of_log
from ioweather.readers.darshan.log import Module
from ioweather.readers.darshan.writer import new_records, write_log
from planted_logs import JOB, NS, START

PROCESSES, RECORDED, MADE = 4, 1024, 5000
COMFORT = ("would not be felt", "not worth changing")


def mdtest(path, *, files=MADE, named=True, size=0):
    """Each of four processes makes `files` files in a run of 1,000 s; Darshan has records of 1,024, and names of all
    where `named`."""
    made = new_records("POSIX", PROCESSES * RECORDED)
    made["id"] = np.arange(1, len(made) + 1)
    made["rank"] = np.repeat(np.arange(PROCESSES), RECORDED)
    counters = {"OPENS": 1, "STATS": 1, "F_META_TIME": 0.001, "F_OPEN_START_TIMESTAMP": 1.0}
    if size:
        counters |= {
            "WRITES": 1, "BYTES_WRITTEN": size, "MAX_BYTE_WRITTEN": size - 1, "SIZE_WRITE_1K_10K": 1,
            "F_WRITE_TIME": 0.0002, "F_WRITE_START_TIMESTAMP": 1.0, "F_WRITE_END_TIMESTAMP": 2.0,
        }  # fmt: skip
    for name, value in counters.items():
        made[f"POSIX_{name}"] = value
    last = PROCESSES * files if named else len(made)
    names = {i: f"/scratch/mdtest/dir.{i % 7}/file.mdtest.{i:07d}" for i in range(1, last + 1)}
    job = JOB._replace(nprocs=PROCESSES, end_ns=START + 1000 * NS, exe="mdtest -n 5000")
    write_log(path, job, {"POSIX": Module("POSIX", 4, True, made)}, names)
    return view_of_log(path, "keep")


def said(view) -> list[str]:
    answer = advised_answer(job_answer(view), advise(view))
    return [answer.headline, *(finding.text for finding in answer.findings)]


@pytest.mark.parametrize(("named", "size"), [(True, 0), (False, 3901)], ids=["easy, all named", "hard, names cut too"])
def test_no_comfort_from_a_part_of_the_counters(tmp_path, named, size):
    view = mdtest(tmp_path / "mdtest.darshan", named=named, size=size)
    texts = said(view)
    assert "took at least" in texts[0]
    assert not [text for text in texts if any(words in text for words in COMFORT)]
    assert any("lower bounds" in text for text in texts)
    storm = next(a for a in advise(view).patterns if a.name == "metadata_storm")
    assert storm.evidence.startswith("at least 8,192 opens and stats")
    assert not {"rank_zero", "subset", "uneven_ranks", "no_mpiio"} & {a.name for a in advise(view).patterns}


def test_names_say_how_many_records_are_needed(tmp_path):
    view = mdtest(tmp_path / "mdtest.darshan")
    # 5,000 records of 704 bytes are 3.4 MiB, and 2 MiB for the rest; 8 is twice Darshan's default.
    assert recording_advice(view) == (
        "To record everything: export DARSHAN_MODMEM=8, and add this line to the file in DARSHAN_CONFIG_PATH: "
        "MAX_RECORDS 5000 POSIX."
    )
    assert recording_advice(view) in said(view)
    many = recording_advice(mdtest(tmp_path / "many.darshan", files=100_000))
    assert "DARSHAN_MODMEM=70 DARSHAN_NAMEMEM=5," in many
    assert many.endswith("MAX_RECORDS 100000 POSIX.")


def test_where_nothing_says_how_many_it_is_called_a_guess(tmp_path):
    advice = recording_advice(mdtest(tmp_path / "mdtest.darshan", named=False, size=3901))
    assert advice.endswith("MAX_RECORDS 2048 POSIX (an estimate: twice 1,024).")


def test_files_without_a_record_make_a_log_incomplete_though_no_module_says_so(tmp_path):
    """Trimmed logs: three of four processes' files are only names."""
    made = new_records("POSIX", 1)
    made["id"], made["rank"], made["POSIX_OPENS"], made["POSIX_WRITES"] = 1, 0, 1, 200
    made["POSIX_BYTES_WRITTEN"], made["POSIX_F_WRITE_TIME"] = 200 << 20, 10.0
    path = tmp_path / "trimmed.darshan"
    write_log(path, JOB._replace(nprocs=4), {"POSIX": made}, {i: f"/scratch/out.{i}" for i in range(1, 5)})
    view = view_of_log(path, "keep")
    assert view.incomplete
    texts = said(view)
    assert any(text.startswith("The log is incomplete: 3 files have a name but no record") for text in texts)
    assert not any("processes move no data" in text for text in texts)
