"""Packages with entry points, as an installer leaves them in a directory: for tests of the doors."""

from __future__ import annotations

from pathlib import Path


def write_package(folder: Path, name: str, code: str, group: str, entries: dict[str, str]) -> None:
    """A module of that name, and what `importlib.metadata` reads of it."""
    module = name.replace("-", "_")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{entry} = {module}:{attribute}" for entry, attribute in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


SOURCE_CODE = """
from pathlib import Path
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import TABLES

class Source:
    name = "points"
    title = "Lines of POINTS"
    tables = ("series",)

    def detect(self, head, path):
        return 0.9 if head.startswith(b"#points") else 0.0

    def read(self, path, context):
        rows = [line.split() for line in path.read_text().splitlines()[1:]]
        if any(len(row) != 2 for row in rows):
            raise CorruptInput(f"{path}: a line has no two fields.")
        yield "series", TABLES["series"].frame({
            "system": "fs", "component": "ost1", "component_kind": "ost", "metric": "read_bytes", "quality": 0,
            "start_ns": [int(row[0]) * 10**9 for row in rows], "interval_ns": 10**9,
            "value": [float(row[1]) for row in rows],
        }, rows=len(rows))

class Raises(Source):
    name = "raises"

    def detect(self, head, path):
        raise RuntimeError("no idea")

SOURCE, RAISES, TAKEN = Source(), Raises(), Source()
"""
