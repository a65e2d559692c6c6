"""Disks of hosts are not file systems: they appear only where they are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ioweather
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Facility, parse_facility
from ioweather.core.tables import RESPONSES, TABLES, concat
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.diagnosis.file_systems import StorageOutcome
from ioweather.facts.slowdown import roll_up
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import Lake, open_lake

BEGIN = 1_700_000_040 * 10**9 // MINUTE_NS * MINUTE_NS
MINUTES = 5


def _add(lake: Lake, disks: list[tuple[str, str, str]], source: str = "block", value: float = 1e6) -> None:
    """Write bytes of every minute; a disk is (system, kind, component)."""
    rows = [(BEGIN + i * MINUTE_NS, *disk) for disk in disks for i in range(MINUTES)]
    start, system, kind, component = (list(column) for column in zip(*rows, strict=True))
    frame = TABLES["series"].frame(
        start_ns=start, interval_ns=MINUTE_NS, system=system, component_kind=kind, component=component,
        metric="write_bytes", value=value, quality=0, rows=len(rows),
    )  # fmt: skip
    lake.append("series", frame, source=source)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = open_lake(tmp_path / "lake", create=True)
    _add(made, [(f"n{i:03}:sda", "device", "sda") for i in range(60)])
    return made


def _asked(lake: Lake, where: str | None = None) -> StorageOutcome:
    result = ioweather.storage(where=where, lake=lake).result
    assert isinstance(result, StorageOutcome)
    return result


def test_disks_are_left_out_where_a_file_system_is_known(lake: Lake) -> None:
    _add(lake, [("scratch", "ost", "scratch-OST0000")], source="lustre")
    assert [state.filesystem for state in _asked(lake).filesystems] == ["scratch"]


def test_without_a_file_system_a_few_disks_are_shown(lake: Lake) -> None:
    assert 1 <= len(_asked(lake).filesystems) <= 8


def test_a_host_and_one_of_its_disks_can_be_asked_for(lake: Lake) -> None:
    _add(lake, [("n007:sdb", "device", "sdb")])
    host = _asked(lake, "n007")
    assert (host.kind, [state.filesystem for state in host.filesystems]) == ("host", ["n007:sda", "n007:sdb"])
    assert _asked(lake, "n007:sdb").where == "n007:sdb"


def test_one_disk_of_two_collectors_is_counted_once(lake: Lake) -> None:
    _add(lake, [("n001.site.example:sda", "device", "sda")], source="prometheus")
    (disk,) = _asked(lake, "n001:sda").filesystems
    assert disk.write_bytes == pytest.approx(MINUTES * 1e6)


SCRAPE = """\
node_disk_written_bytes_total{{instance="10.0.0.5:9100",device="sda"}} {written} {ms}
node_uname_info{{instance="10.0.0.5:9100",nodename="n001.site.example",sysname="Linux"}} 1 {ms}
"""


def test_a_disk_that_one_collector_labels_by_an_address_is_joined_by_the_name_that_the_host_reports(
    lake: Lake, tmp_path: Path
) -> None:
    """node_exporter counts 500 kB a minute, the agent twice as much: one of them is shown, not their sum."""
    text = "".join(SCRAPE.format(written=500_000 * i, ms=BEGIN // 10**6 + i * 60_000) for i in range(MINUTES + 1))
    (tmp_path / "scrapes.prom").write_text(text)
    report = ingest(lake, [tmp_path / "scrapes.prom"], source="prometheus")
    assert not report.bad
    assert report.rows_added["components"] == 1
    (disk,) = _asked(lake, "n001:sda").filesystems
    assert disk.write_bytes == pytest.approx(MINUTES * 1e6)
    with lake.snapshot() as snapshot:
        assert "10.0.0.5:sda" not in snapshot.filesystems()
        assert snapshot.facility.filesystem_of("10.0.0.5:nvme0n1") == "n001:nvme0n1"


def test_addresses_are_named_in_the_facility_file_where_the_data_do_not(lake: Lake) -> None:
    _add(lake, [("10.0.0.6:sda", "device", "sda")], source="prometheus", value=1.0)
    assert "10.0.0.6:sda" in {state.filesystem for state in _asked(lake, "10.0.0.6:sda").filesystems}
    (lake.root / "facility.toml").write_text('[hosts]\n"10.0.0.6" = "n002"\n[filesystem.home]\ndevices = ["n003:*"]\n')
    (disk,) = _asked(open_lake(lake.root), "n002:sda").filesystems
    assert disk.write_bytes == pytest.approx(MINUTES * 1e6)


def test_one_source_with_two_names_of_a_disk_is_counted_once(lake: Lake) -> None:
    (lake.root / "facility.toml").write_text('[hosts]\n"10.0.0.7" = "n003"\n')
    _add(lake, [("10.0.0.7:sda", "device", "sda")])
    (disk,) = _asked(open_lake(lake.root), "n003:sda").filesystems
    assert disk.write_bytes == pytest.approx(MINUTES * 1e6)


def test_patterns_of_disks_fit_the_name_of_a_host_that_is_labelled_by_an_address() -> None:
    home = parse_facility({"hosts": {"10.0.0.8": "oss1"}, "filesystem": {"scratch": {"devices": ["oss1:sd*"]}}})
    assert home.filesystem_of("10.0.0.8:sdb") == "scratch"
    assert home.filesystem_of("10.0.0.8:nvme0") == "oss1:nvme0"


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("n1.site.example:sda", "n1:sda"),
        ("n1:sda", "n1:sda"),
        ("10.0.0.7:sda", "10.0.0.7:sda"),
        ("mount:/a.b/c", "mount:/a.b/c"),
        ("server.site:/export", "server.site:/export"),
        ("scratch.old", "scratch.old"),
    ],
)
def test_only_names_of_disks_lose_their_domain(raw: str, name: str) -> None:
    assert Facility().filesystem_of(raw) == name


def test_a_file_system_that_only_probes_know_has_a_page(lake: Lake) -> None:
    frame = RESPONSES.frame(
        start_ns=BEGIN + np.arange(60) * MINUTE_NS, host="n000", target="/p", op="read", request_bytes=4096,
        mode="nocache", system="mount:/", duration_ns=np.full(60, 10**7), status="ok", rows=60,
    )  # fmt: skip
    lake.append(
        "response_rollups", concat([roll_up(frame, step) for step in (10 * MINUTE_NS, HOUR_NS)]), source="rollup"
    )
    (state,) = _asked(lake, "/").filesystems
    assert (state.filesystem, state.slow) == ("/", False)
    assert state.slowdown == pytest.approx(1.0, rel=0.02)
    with pytest.raises(DataUnavailable, match="There is no file system"):
        _asked(lake, "/other")
