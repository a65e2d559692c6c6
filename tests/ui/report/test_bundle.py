"""A bundle that others can check: every file is there, has its checksum, and is described."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.logs import silent
from ioweather.core.results import Estimate, Exhibit, ResultTable
from ioweather.ui.report.bundle import check_bundle, write_bundle
from ioweather.ui.report.write import LeftOut, Material

ROCrate = pytest.importorskip("rocrate.rocrate").ROCrate

TABLE = ResultTable.of("sizes", "size [bytes]; share [ratio]", [(1 << 30, 0.5)], "Sizes")
ESTIMATE = Estimate("below_ratio[1 MiB]", 0.9, "ratio", n=10**6)
EXHIBITS = (Exhibit("car11.fig8", "Files", estimates=(ESTIMATE,), tables=(TABLE,)),
            Exhibit("car11.fig9", "Estimates alone", estimates=(ESTIMATE,)))  # fmt: skip


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    site = Facility(name="Site")
    left_out = (LeftOut("car11.fig1", "t", "no data"),)
    span = (0, 86_400 * 10**9)
    material = Material(site, (0, 1 << 62), "/lakes/weather", {"scans": 3}, {"scans": 1}, span, EXHIBITS, left_out, 0)
    files = write_bundle(material, tmp_path / "b", "ioweather report --bundle DIR", silent)
    assert files == sum(path.is_file() for path in (tmp_path / "b").rglob("*"))
    return tmp_path / "b"


def test_checksums_are_those_of_the_files(bundle: Path) -> None:
    lines = (bundle / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    there = {str(path.relative_to(bundle)) for path in bundle.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    assert set(listed) == there
    assert all(hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())


def test_the_crate_describes_every_file(bundle: Path) -> None:
    crate = ROCrate(bundle)
    described = {entity.id for entity in crate.get_entities() if entity.type == "File"}
    tables = {f"tables/car11.{name}{ending}" for name in ("fig8", "fig9") for ending in (".csv", ".tex")}
    assert described >= {"README.md", "versions.json", "data/car11.fig8.json", *tables}
    assert all(crate.dereference(name)["sha256"] for name in described)
    assert len(crate.root_dataset["citation"]) == 5
    # What version 1.1 demands of the crate, and recommends.
    entities = {each["@id"]: each for each in json.loads((bundle / "ro-crate-metadata.json").read_text())["@graph"]}
    assert entities["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert crate.root_dataset["license"]["name"] == "No licence stated"
    assert crate.root_dataset["author"].type == crate.root_dataset["publisher"].type == "Organization"
    assert crate.root_dataset["author"]["name"] == "Site"


def test_data_and_readme(bundle: Path) -> None:
    assert json.loads((bundle / "data/car11.fig8.json").read_text())["estimates"][0]["value"] == 0.9
    readme = (bundle / "README.md").read_text()
    assert "car11.fig1: no data" in readme
    assert "Lake: `weather`. Period: 1970-01-01 to 1970-01-02." in readme
    assert "/lakes" not in readme


def test_a_folder_with_files_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(UsageError, match="not empty"):
        check_bundle(tmp_path)
    check_bundle(tmp_path / "new")
