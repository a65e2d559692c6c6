"""Default parameters, from small inventories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ioweather.core import choices
from ioweather.core.contracts import SeriesGroup
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.topics.catalogue import STUDIES
from ioweather.topics.source import resolve_params


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


def chosen(lake: Lake, **typed: str) -> dict[str, Any]:
    """All parameters of a study of climate."""
    return resolve_params(STUDIES["climate"].params, typed, lambda: lake, lambda: "UTC")


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
    assert chosen(lake)["component_kind"] == "ost"
    assert chosen(lake)["metadata_kind"] == "mds"
    assert chosen(lake)["burst_buffer"] is None


def test_a_burst_buffer_is_known_by_its_name_and_is_not_the_main_system() -> None:
    lake = Lake(group("burst-buffer", "device", "read_bytes", 9e15), group("scratch", "ost", "read_bytes", 1e15))
    found = chosen(lake)
    assert (found["filesystem"], found["burst_buffer"], found["burst_buffer_kind"]) == (
        "scratch", "burst-buffer", "device",
    )  # fmt: skip
    assert chosen(lake, filesystem="burst-buffer")["burst_buffer"] is None
    alone = chosen(Lake(group("bb", "device", "read_bytes", 1.0)))
    assert (alone["filesystem"], alone["burst_buffer"]) == ("bb", None)
    unlike = Lake(group("abba", "ost", "read_bytes", 1.0), group("x", "ost", "read_bytes", 1.0))
    assert chosen(unlike)["burst_buffer"] is None


def test_what_is_not_typed_is_chosen_for_the_file_system_that_is() -> None:
    lake = Lake(
        group("scratch", "ost", "read_bytes", 9e15),
        group("scratch", "mds", "open_ops", 1.0),
        group("home", "device", "read_bytes", 1e12, interval_ns=10 * MINUTE_NS),
        group("home", "host", "read_bytes", 1e12, interval_ns=HOUR_NS),
        group("home", "mdt", "open_ops", 1.0),
    )
    names = ("filesystem", "component_kind", "metadata_kind", "resolution")
    assert [chosen(lake)[name] for name in names] == ["scratch", "ost", "mds", MINUTE_NS]
    home = chosen(lake, filesystem="home")
    assert [home[name] for name in names] == ["home", "device", "mdt", 10 * MINUTE_NS]
    hosts = chosen(lake, filesystem="home", component_kind="host")
    assert [hosts[name] for name in names] == ["home", "host", "mdt", HOUR_NS]
