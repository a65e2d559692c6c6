"""Episodes and sick components: each is listed once, whatever later rows and longer intervals make of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from asking import events
from ioweather.core.tables import RESPONSES, concat
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, parse_time_ns
from ioweather.diagnosis.events import EventOutcome, find_episodes
from ioweather.diagnosis.health_query import find_sick_components
from ioweather.facts.slowdown import roll_up
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact

START = parse_time_ns("2026-03-01 00:00Z")
LONG = (3 * DAY_NS + 10 * HOUR_NS + 20 * MINUTE_NS, 3 * DAY_NS + 13 * HOUR_NS + 40 * MINUTE_NS)
SHORT = (5 * DAY_NS + 20 * MINUTE_NS, 5 * DAY_NS + 40 * MINUTE_NS)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


def measure(
    lake: Lake, first_ns: int, last_ns: int, *slow: tuple[int, int], host: str = "h", size: int = 1 << 20
) -> None:
    """An operation every two minutes between these times after START: 10 ms, or 40 ms where it is slow."""
    after = np.arange(first_ns, last_ns, 2 * MINUTE_NS)
    is_slow = np.any([(after >= low) & (after < high) for low, high in slow] or [np.zeros(len(after), bool)], axis=0)
    frame = RESPONSES.frame(
        start_ns=START + after, host=host, target="/work/p", op="read", request_bytes=size, mode="nocache",
        system="mount:/work", duration_ns=np.where(is_slow, 40, 10) * (NS // 1000), status="ok", rows=len(after),
    )  # fmt: skip
    rolled = [roll_up(frame, interval) for interval in (10 * MINUTE_NS, HOUR_NS)]
    lake.append("response_rollups", concat(rolled), source="rollup")


def bounds(found: list[EventOutcome]) -> list[tuple[int, int | None]]:
    """Of the oldest first, after START."""
    return [(e.start_ns - START, None if e.end_ns is None else e.end_ns - START) for e in reversed(found)]


def listed(lake: Lake) -> list[tuple[int, int | None]]:
    """What a look finds; the next finds nothing new."""
    find_episodes(lake)
    assert find_episodes(lake) == 0
    return bounds(events(lake, "episode"))


def test_longer_intervals_list_no_episode_twice_and_forget_none(lake: Lake) -> None:
    measure(lake, 0, 13 * DAY_NS, LONG, SHORT)
    assert listed(lake) == [LONG, SHORT]
    measure(lake, 13 * DAY_NS, 16 * DAY_NS)
    compact(lake, everything=True)
    # The hour from 10:00 is slow by two thirds, the one from 13:00 too; twenty minutes are half an hour's median.
    by_the_hour = (3 * DAY_NS + 10 * HOUR_NS, 3 * DAY_NS + 14 * HOUR_NS)
    assert listed(lake) == [by_the_hour, SHORT]


def test_what_goes_on_when_intervals_change_is_not_going_on_for_ever(lake: Lake) -> None:
    begins = 14 * DAY_NS - 30 * MINUTE_NS
    measure(lake, 0, 14 * DAY_NS, (begins, 14 * DAY_NS))
    assert listed(lake) == [(begins, None)]
    measure(lake, 14 * DAY_NS, 15 * DAY_NS, (14 * DAY_NS, 14 * DAY_NS + 2 * HOUR_NS))
    assert listed(lake) == [(14 * DAY_NS, 14 * DAY_NS + 2 * HOUR_NS)]


def test_late_rows_move_an_episode_and_do_not_repeat_it(lake: Lake) -> None:
    measure(lake, 0, 3 * DAY_NS + 10 * HOUR_NS)
    measure(lake, LONG[0] + 30 * MINUTE_NS, 4 * DAY_NS, LONG)
    assert listed(lake) == [(LONG[0] + 30 * MINUTE_NS, LONG[1])]
    measure(lake, 3 * DAY_NS + 10 * HOUR_NS, LONG[0] + 30 * MINUTE_NS, LONG, host="late")
    assert listed(lake) == [LONG]


def test_what_turns_out_to_be_usual_is_taken_back_until_it_is_not(lake: Lake) -> None:
    measure(lake, 0, DAY_NS, (12 * HOUR_NS, 14 * HOUR_NS))
    assert listed(lake) == [(12 * HOUR_NS, 14 * HOUR_NS)]
    measure(lake, DAY_NS, 3 * DAY_NS, (DAY_NS, 3 * DAY_NS))
    assert listed(lake) == []
    measure(lake, 3 * DAY_NS, 9 * DAY_NS)
    assert listed(lake) == [(12 * HOUR_NS, 14 * HOUR_NS), (DAY_NS, 3 * DAY_NS)]


def test_requests_of_other_sizes_than_the_usual_are_no_episodes(lake: Lake) -> None:
    measure(lake, 0, 4 * DAY_NS, LONG)
    measure(lake, 0, 2 * DAY_NS, (DAY_NS, DAY_NS + HOUR_NS), size=1 << 26)
    assert listed(lake) == [LONG]


def test_late_rows_move_the_silence_of_a_target_and_do_not_repeat_it(lake: Lake) -> None:
    values = np.random.default_rng(4).lognormal(20, 0.3, (4 * 1440, 8))
    silent = values.copy()
    silent[2040:3000, 3] = np.nan
    lake.append("series", series_frame(silent, start_ns=START), source="lmt")
    late = np.full(values.shape, np.nan)
    late[2040:2400, 3] = values[2040:2400, 3]
    found = []
    for _ in range(2):
        find_sick_components(lake)
        assert find_sick_components(lake) == 0, "a second look finds nothing new"
        found.append(bounds(events(lake, "component_health")))
        lake.append("series", series_frame(late, start_ns=START), source="lmt")
    assert found == [[(2040 * MINUTE_NS, 3000 * MINUTE_NS)], [(2400 * MINUTE_NS, 3000 * MINUTE_NS)]]
