"""The public functions: loaded when used, short in a notebook, and their examples run."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys

import pytest
from fuzz_seeds import seeds_of

import ioweather


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Where the examples find their files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_importing_loads_nothing_heavy():
    heavy = "numpy", "_duckdb", "deltalake", "scipy", "click", "rich", "pandas", "importlib.metadata"
    code = f"import sys, ioweather; dir(ioweather); print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in ioweather.__all__ if not name.startswith("_")])
def test_every_name_is_there_typed_and_explained(name):
    function = getattr(ioweather, name)
    assert inspect.getdoc(function)
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ioweather.nothing


def test_the_examples_run(place):
    (place / "iostat.log").write_bytes(seeds_of("iostat")[0].data)
    (place / "job.darshan").write_bytes(seeds_of("darshan")[0].data)
    from ioweather.lake.lake import Lake

    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    tried = 0
    for thing in (ioweather.ingest, ioweather.open_lake, Lake.tables, ioweather.sql, ioweather.exhibits,
                  ioweather.read_darshan, ioweather.fit_mixture):  # fmt: skip
        for test in finder.find(thing, thing.__name__, globs={}):
            said: list[str] = []
            assert runner.run(test, out=said.append).failed == 0, "".join(said)
            tried += len(test.examples)
    assert tried >= 10
