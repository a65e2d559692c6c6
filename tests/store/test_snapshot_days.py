"""Reading only the days that rows lie in gives the same rows."""

from __future__ import annotations

from planted_jobs import NS, T, planted

from ioweather.core.clock import utc_day
from ioweather.core.units import DAY_NS
from ioweather.store.lake import open_lake


def test_only_the_named_days_are_read(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    frames = planted([{"start_ns": T + k * DAY_NS, "run_seconds": 10.0} for k in range(4)])
    lake.append("applications", frames["applications"], source="darshan")
    with lake.snapshot() as snapshot:
        everything = snapshot.frame("applications", ("log_digest", "start_ns"))
        some = snapshot.frame("applications", ("log_digest", "start_ns"), days={utc_day(T), utc_day(T + 2 * DAY_NS)})
        none = snapshot.frame("applications", ("log_digest",), days={utc_day(T - 40 * DAY_NS)})
        empty = snapshot.frame("applications", ("log_digest",), days=())
    assert everything.rows == 4
    assert sorted(int(t) // NS for t in some.array("start_ns")) == [T // NS, (T + 2 * DAY_NS) // NS]
    assert none.rows == 0
    assert empty.rows == 0
