"""Answers of mmpmon: amounts between two of them, nodes and file systems, resets, what is refused and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import samples as samples_in
from ioweather.core.counters.growth import Target
from ioweather.core.errors import EmptyInput
from ioweather.core.tables import Quality
from ioweather.ingestion.reading import FileOutcome, Reading, read_file
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.server_counters import MMPMON

NS = 10**9
START = 1_700_000_000


def answer(seconds: int, n: int, fs: str | None = "gpfs0", node: str = "node1", rc: int = 0) -> str:
    what, which = ("fs_io_s", f"_cl_ gpfs.site _fs_ {fs} _d_ 7 ") if fs else ("io_s", "")
    return (
        f"_{what}_ _n_ 10.0.0.1 _nn_ {node} _rc_ {rc} _t_ {START + seconds} _tu_ 500000 {which}"
        f"_br_ {n << 20} _bw_ {n} _oc_ {n} _cc_ {n} _rdc_ {n} _wc_ {n} _dir_ {n} _iu_ {n}\n"
    )


def rows(path: Path, **context: object) -> list[tuple[object, ...]]:
    columns = ("system", "component", "metric", "start_ns", "interval_ns", "value", "quality")
    read = MMPMON.read(path, ReadContext(**context))  # type: ignore[arg-type]
    return [tuple(row[name] for name in columns) for _, frame in read for row in frame.records()]


def test_amounts_between_answers(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(
        "_ver_ _n_ 10.0.0.1 _nn_ node1 _v_ 3 _lv_ 9 _vt_ 0\n"
        + answer(0, 5) + answer(0, 2, node="node2") + answer(60, 9) + answer(60, 2, node="node2")
    )  # fmt: skip
    assert MMPMON.detect(path.read_bytes(), path) == 0.95
    found = rows(path)
    start = START * NS + NS // 2
    assert ("gpfs0", "node1", "read_bytes", start, 60 * NS, 4 << 20, 0) in found
    assert {row[2]: row[5] for row in found if row[1] == "node1" and row[2] != "read_bytes"} == dict.fromkeys(
        ("write_bytes", "open_ops", "close_ops", "read_ops", "write_ops", "other_ops", "setattr_ops"), 4
    )
    assert {row[5] for row in found if row[1] == "node2"} == {0}
    assert SOURCES["mmpmon"] is MMPMON


def test_sums_of_a_node_and_resets(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(answer(0, 5, None) + answer(60, 2, None))
    assert {(row[0], row[5], row[6]) for row in rows(path) if row[2] == "read_ops"} == {("gpfs", 2, Quality.RESET)}
    assert {row[0] for row in rows(path, system="projects")} == {"projects"}


def test_answers_that_tell_nothing_are_counted(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(answer(0, 5) + answer(30, 0, rc=1) + "_fs_io_s_ _n_ 10.0.0.1 _rc_ 0 _t_ 5\n" + answer(60, 9))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, dict(outcome.rows)) == ("ok", {"series": 8})
    assert "1 answer(s): fs_io_s with status 1; 1 answer(s): fs_io_s without all of its counters" in (
        outcome.message or ""
    )
    path.write_text(answer(0, 5))
    with pytest.raises(EmptyInput, match=r"1 answer\(s\) of mmpmon and nothing to compare"):
        rows(path)


def test_a_real_answer(samples: Path, tmp_path: Path):
    text = (samples / "gpfs" / "mmpmon_fs_io_s.txt").read_text()
    words = dict(re.findall(r"_(\w+)_ (\S+)", text))
    ((origin, sample),) = samples_in(text.splitlines())
    assert origin.target == Target(words["fs"], "host", words["nn"])
    assert sample.time_ns == int(words["t"]) * NS + int(words["tu"]) * 1000
    assert sample.counters["read_bytes"] == int(words["br"])
    assert sample.counters["write_ops"] == int(words["wc"])
    later = text.replace(words["t"], str(int(words["t"]) + 10)).replace(words["br"], str(int(words["br"]) + 4096))
    (tmp_path / "x").write_text(text.rstrip() + "\n" + later.rstrip() + "\n")
    assert {row[5] for row in rows(tmp_path / "x") if row[2] == "read_bytes"} == {4096}
