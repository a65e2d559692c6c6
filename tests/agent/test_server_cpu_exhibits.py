"""Processors of file servers as the agent sees them, in a lake: pat19.fig15 and fig16 need no other monitoring."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.agent.counters import ServerLoad
from ioweather.core.counters.growth import Clocks, Target
from ioweather.core.results import Exhibit
from ioweather.core.tables import TABLES
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import each_exhibit
from live_reporter import Heard

STEP_NS = 60 * 10**9
STEPS = 240
# Of 100 ticks of a minute, so many were busy; the second server has one busy minute in four.
BUSY = {"oss1": lambda step: 2, "oss2": lambda step: 40 if step % 4 == 0 else 4}


def rows_of_agent(folder, host, busy) -> list[dict[str, object]]:
    (folder / "proc").mkdir(parents=True)
    moment, used, heard = [0], 0, Heard()
    cpu = ServerLoad(folder, host, Clocks(wall_ns=lambda: DAY + moment[0], monotonic_ns=lambda: moment[0]))
    for step in range(STEPS + 1):
        moment[0] = step * STEP_NS
        (folder / "proc/stat").write_text(f"cpu {used} 0 0 {100 * step - used} 0 0 0 0 0 0\n")
        cpu.cycle({Target("scratch", "ost", f"scratch-{host}")}, heard)
        used += busy(step)
    return heard.of("series")


def test_the_agent_s_own_rows_make_both_exhibits(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    rows = [row for host, busy in BUSY.items() for row in rows_of_agent(tmp_path / host, host, busy)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    lake.append("series", TABLES["series"].frame(columns, rows=len(rows)), source="spool")
    # What its targets moved, as the agent reports it beside.
    moved = np.random.default_rng(1).lognormal(20.0, 1.0, (STEPS, 2))
    for metric in ("read_bytes", "write_bytes"):
        lake.append("series", series_frame(moved, metric=metric), source="spool")
    made = each_exhibit(lake, ["pat19.fig15", "pat19.fig16"])
    states = {name: e.empty_because if isinstance(e, Exhibit) else str(e) for name, e in made.items()}
    assert states == {"pat19.fig15": "", "pat19.fig16": ""}
    found = {e.name: e.value for e in made["pat19.fig15"].estimates}
    assert found["max_load"] == pytest.approx(0.40)
    assert found["mean_load"] == pytest.approx(0.13)
    assert found["mean_load_all"] == pytest.approx(0.075)
    assert made["pat19.fig16"].estimates
