"""Default parameters, from small inventories."""

from __future__ import annotations

from collections.abc import Sequence

from ioweather.core.contracts import SeriesGroup
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.studies import choices


class Lake:
    """An inventory that holds what it is given."""

    def __init__(self, *groups: SeriesGroup) -> None:
        self._groups = groups

    def tables(self) -> dict[str, int]:
        return {"series": len(self._groups)}

    def series(self) -> Sequence[SeriesGroup]:
        return self._groups

    def scalar(self, sql: str) -> None:
        raise AssertionError(sql)


def group(filesystem: str, kind: str, metric: str, total: float, *, interval_ns: int = 5 * NS, hours: int = 24,
          source: str = "lmt") -> SeriesGroup:  # fmt: skip
    return SeriesGroup(
        day="2026-01-01", source=source, system=filesystem, filesystem=filesystem, component_kind=kind, metric=metric,
        selection="all", interval_ns=interval_ns, regular=True, rows=10, components=2, first_ns=0,
        end_ns=hours * HOUR_NS, covered_ns=0, total=total,
    )  # fmt: skip


def test_the_busiest_file_system_counts_the_same_bytes_once() -> None:
    lake = Lake(
        group("home", "ost", "read_bytes", 5e12),
        group("home", "ost", "read_bytes", 5e12, source="h5lmt"),
        group("home", "device", "read_bytes", 5e12),
        group("scratch", "ost", "read_bytes", 4e12),
        group("scratch", "ost", "write_bytes", 4e12),
        group("scratch", "mds", "open_ops", 9e20),
    )
    assert choices.busiest_filesystem(lake) == "scratch"
    assert choices.traffic_kind(lake) == "ost"
    assert choices.metadata_kind(lake) == "mds"
    assert choices.burst_buffer(lake) is None


def test_devices_serve_where_there_are_no_osts() -> None:
    lake = Lake(group("gpfs", "device", "write_bytes", 1.0), group("gpfs", "host", "write_bytes", 1.0))
    assert choices.traffic_kind(lake) == "device"


def test_a_burst_buffer_is_known_by_its_name_and_is_not_the_main_system() -> None:
    lake = Lake(group("burst-buffer", "device", "read_bytes", 9e15), group("scratch", "ost", "read_bytes", 1e15))
    assert choices.busiest_filesystem(lake) == "scratch"
    assert choices.burst_buffer(lake) == "burst-buffer"
    assert choices.burst_buffer_kind(lake) == "device"
    alone = Lake(group("bb", "device", "read_bytes", 1.0))
    assert choices.busiest_filesystem(alone) == "bb"
    assert choices.burst_buffer(alone) is None
    assert (
        choices.burst_buffer(Lake(group("abba", "ost", "read_bytes", 1.0), group("x", "ost", "read_bytes", 1.0)))
        is None
    )


def test_resolution_is_a_minute_unless_the_data_say_otherwise() -> None:
    assert choices.resolution(Lake(group("s", "ost", "read_bytes", 1.0))) == MINUTE_NS
    assert choices.resolution(Lake(group("s", "ost", "read_bytes", 1.0, interval_ns=HOUR_NS))) == HOUR_NS
    assert choices.resolution(Lake(group("s", "ost", "read_bytes", 1.0, hours=1))) == 5 * NS
    assert choices.resolution_of("cpu_ratio")(Lake(group("s", "oss", "cpu_ratio", 1.0))) == MINUTE_NS


def test_an_empty_lake_has_choices_that_name_what_is_missing() -> None:
    lake = Lake()
    assert choices.busiest_filesystem(lake) is None
    assert choices.traffic_kind(lake) == "ost"
    assert choices.metadata_kind(lake) == "mds"
    assert choices.resolution(lake) == MINUTE_NS
