"""Processors of a file server, from a /proc/stat that changes under the collector."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.agent.counters import LustreServer, ServerLoad
from ioweather.core.counters.growth import Target
from ioweather.core.tables import TABLES
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import each_exhibit
from live_reporter import HandClock, Heard

NS = 10**9
OST, MDT, CLIENT = Target("fs1", "ost", "fs1-OST0000"), Target("fs1", "mdt", "fs1-MDT0000"), Target("fs1", "host", "n1")


def told(folder: Path, texts: list[str], targets: set[Target], steps: tuple[int, ...] = ()) -> list[dict[str, object]]:
    (folder / "proc").mkdir(exist_ok=True)
    clock, heard = HandClock(wall_ns=1000 * NS), Heard()
    cpu = ServerLoad(folder, "server1", clock.clocks)
    for number, text in enumerate(texts):
        (folder / "proc/stat").write_text(text)
        cpu.cycle(targets, heard)
        clock.pass_seconds(10)
        clock.step_seconds(steps[number] - 10 if steps else 0)
    return heard.of("series")


def test_busy_is_what_is_neither_idle_nor_waiting(tmp_path):
    # Of 1,000 ticks 600 idle, 200 waiting, 50 stolen; guests (the last two) are counted in user already.
    rows = told(tmp_path, ["cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 1", "cpu  80 0 60 600 200 5 5 50 40 0\ncpu0 1"], {OST})
    (row,) = rows
    assert row["value"] == pytest.approx(0.2)
    assert (row["component_kind"], row["component"], row["system"], row["metric"]) == (
        "oss",
        "server1",
        "fs1",
        "cpu_ratio",
    )
    assert (row["start_ns"], row["interval_ns"]) == (1000 * NS, 10 * NS)


def test_a_server_of_both_kinds_and_file_systems_is_told_of_as_each(tmp_path):
    texts = ["cpu 0 0 0 0", "cpu 1 0 0 1"]
    rows = told(tmp_path, texts, {OST, MDT, CLIENT, Target("fs2", "ost", "fs2-OST0001")})
    assert [(row["system"], row["component_kind"]) for row in rows] == [("fs1", "mds"), ("fs1", "oss"), ("fs2", "oss")]
    assert told(tmp_path, texts, {CLIENT}) == []


@pytest.mark.parametrize("text", ["", "cpu", "cpu a b c d", "intr 5", "cpu 5 5 5 2", "cpu 9 9 9 9", "cpu -1 9 9 9"])
def test_what_is_damaged_stands_still_or_runs_backwards_is_left_out(tmp_path, text):
    assert told(tmp_path, ["cpu 9 9 9 9", text], {OST}) == []


def test_a_clock_set_back_tells_of_no_minute_twice(tmp_path):
    texts = [f"cpu {10 * n} 0 0 {30 * n}" for n in range(5)]
    rows = told(tmp_path, texts, {OST}, (10, -40, 10, 10, 10))
    spans = sorted((row["start_ns"], row["start_ns"] + row["interval_ns"]) for row in rows)
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert {row["value"] for row in rows} == {0.25}


def test_a_tree_without_it_and_a_server_with_it(tmp_path):
    clock, heard = HandClock(), Heard()
    server = LustreServer(root=tmp_path, host="oss1", clocks=clock.clocks)
    folder = tmp_path / "proc/fs/lustre/obdfilter/fs1-OST0000"
    folder.mkdir(parents=True)
    (folder / "stats").write_text("snapshot_time 1000.5 secs.usecs\nread_bytes 1 samples [bytes] 1 1 1\n")
    server.cycle(0, heard)  # no proc/stat: the rest goes on
    for n in range(2):
        (tmp_path / "proc/stat").write_text(f"cpu {n} 0 0 {3 * n} 0 0 0 0 0 0\n")
        clock.pass_seconds(10)
        server.cycle(0, heard)
    (row,) = (row for row in heard.of("series") if row["metric"] == "cpu_ratio")
    assert (row["component"], row["component_kind"], row["value"]) == ("oss1", "oss", 0.25)


def test_the_agent_s_own_rows_make_both_exhibits_of_processors(tmp_path):
    """One server is 2% busy, the other 40% in one minute of four and 4% in the others."""
    lake, steps = open_lake(tmp_path / "lake", create=True), 240
    for host, busy in (("oss1", (2, 2, 2, 2)), ("oss2", (40, 4, 4, 4))):
        (tmp_path / host / "proc").mkdir(parents=True)
        clock, heard, used = HandClock(wall_ns=DAY), Heard(), 0
        load = ServerLoad(tmp_path / host, host, clock.clocks)
        for step in range(steps + 1):
            (tmp_path / host / "proc/stat").write_text(f"cpu {used} 0 0 {100 * step - used} 0 0 0 0 0 0\n")
            load.cycle({Target("scratch", "ost", f"scratch-{host}")}, heard)
            used += busy[step % 4]
            clock.pass_seconds(60)
        rows = heard.of("series")
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        lake.append("series", TABLES["series"].frame(columns, rows=len(rows)), source="spool")
    moved = np.random.default_rng(1).lognormal(20.0, 1.0, (steps, 2))
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(moved, metric=metric), source="spool")
    made = each_exhibit(lake, ["pat19.fig15", "pat19.fig16"])
    found = {each.name: each.value for each in made["pat19.fig15"].estimates}
    assert (found["max_load"], found["mean_load"], found["mean_load_all"]) == pytest.approx((0.40, 0.13, 0.075))
    assert made["pat19.fig16"].estimates
