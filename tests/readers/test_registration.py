"""A module registers its readers by constants, which are found without importing it."""

from __future__ import annotations

import importlib
import pkgutil

import ioweather.readers
from ioweather.core.contracts import Source
from ioweather.readers.reader_catalogue import SOURCES, FileReader, registered_readers


def test_every_reader_of_every_module_is_registered_under_its_name() -> None:
    found: dict[str, Source] = {}
    for module in pkgutil.walk_packages(ioweather.readers.__path__, "ioweather.readers."):
        constants = vars(importlib.import_module(module.name)).values()
        found |= {value.name: value for value in constants if isinstance(value, FileReader)}
    assert {name: SOURCES[name] for name in SOURCES if SOURCES.is_ours(name)} == found


def test_a_new_module_needs_no_other_file(tmp_path) -> None:
    (tmp_path / "fsmon").mkdir()
    (tmp_path / "fsmon/fsmon_log.py").write_text('FSMON = FileReader(\n    "fsmon",\n    "Lines of fsmon",\n)\n')
    (tmp_path / "short.py").write_text('X2 = OwnReader("x2", "Files of x2", ("series",), detect, read)\n')
    expected = {"fsmon": "package.fsmon.fsmon_log:FSMON", "x2": "package.short:X2"}
    assert registered_readers(tmp_path, "package") == expected
