from __future__ import annotations

import sys

import pytest
from plugin_packages import SOURCE_CODE, write_package

from ioweather.core.errors import UsageError
from ioweather.core.registry import Catalogue

GROUP = "ioweather_tests.things"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for module in tmp_path.glob("*.py"):
        sys.modules.pop(module.stem, None)


def catalogue(**more):
    return Catalogue("thing", {"ours": "ioweather.core.units:NS"}, group=GROUP, **more)


def test_entries_of_other_packages_come_after_ours_and_have_their_package(installed):
    write_package(installed, "other-things", "a, b = 1, 2", GROUP, {"b": "b", "a": "a"})
    things = catalogue()
    assert list(things) == ["ours", "a", "b"]
    assert dict(things) == {"ours": 10**9, "a": 1, "b": 2}
    assert (len(things), "a" in things, "c" in things) == (3, True, False)
    assert (things.package_of("ours"), things.package_of("b")) == ("ioweather", "other-things 1.0")


@pytest.mark.parametrize(
    ("code", "attribute", "why"),
    [
        ("import nothing_of_this_name", "a", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("raise SystemExit(3)", "a", "SystemExit: 3"),
        ("a = 1", "b", "AttributeError"),
        ("a = 'wrong'", "a", "it is text"),
    ],
)
def test_a_broken_one_is_named_once_and_left_out(installed, caplog, code, attribute, why):
    write_package(installed, "broken-things", code, GROUP, {"a": attribute})
    things = catalogue(fault=lambda name, found: "it is text" if isinstance(found, str) else "")
    assert list(things) == list(things) == ["ours"]
    assert len(caplog.records) == 1
    assert "Ignored the thing 'a' of package broken-things 1.0" in caplog.text
    assert why in caplog.text
    with pytest.raises(UsageError, match="Ignored the"):
        things["a"]


def test_a_name_that_is_taken_is_refused(installed, caplog):
    write_package(installed, "a-things", "x = 1", GROUP, {"ours": "x", "x": "x"})
    write_package(installed, "b-things", "x = 2", GROUP, {"x": "x"})
    things = catalogue()
    assert dict(things) == {"ours": 10**9, "x": 1}
    assert "Ignored the thing 'ours' of package a-things 1.0: ioweather already has this name." in caplog.text
    assert "Ignored the thing 'x' of package b-things 1.0: a-things 1.0 already has this name." in caplog.text


def test_one_that_failed_where_it_must_not_is_left_out_from_then_on(installed, caplog):
    write_package(installed, "late-things", "a = 1", GROUP, {"a": "a"})
    things = catalogue()
    assert "a" in things
    things.leave_out("a", "it failed")
    things.leave_out("a", "it failed")
    assert "a" not in things
    assert caplog.text.count(": it failed.") == 1


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"points": "Source"}, "it is a class"),
        ({"other": "SOURCE"}, "its name is 'points'"),
        ({"points": "Path"}, "it has no title, tables, detect, read"),
    ],
)
def test_what_is_no_source_is_left_out(installed, caplog, monkeypatch, entries, why):
    from ioweather.readers.reader_catalogue import SOURCES

    write_package(installed, "wrong-source", SOURCE_CODE, "ioweather.sources", entries)
    vars(SOURCES).pop("plugins", None)
    monkeypatch.setattr(SOURCES, "_left_out", {})
    assert not set(entries) & set(SOURCES)
    assert why in caplog.text
