"""An unexpected error: its traceback and one line, without control characters."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ioweather._version import __version__


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The command `show` raises what it is given."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def with_error(error: BaseException) -> None:
        import ioweather.topics.analyse as analyse

        def failing(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(analyse, "catalogue_only", failing)
        monkeypatch.setattr(analyse, "availability", failing)
        monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "no lake"))

    return with_error


def test_the_traceback_and_a_line_to_report(call, fails) -> None:
    fails(ZeroDivisionError("by\x1b[31m\nforged"))
    code, _, err = call("show")
    assert code == 2
    *above, last = err.splitlines()
    assert last.startswith(
        f"ioweather: This is a bug in ioweather {__version__}: ZeroDivisionError: by\\x1b[31m forged"
    )
    assert above[0] == "Traceback (most recent call last):"
    assert "\x1b" not in err


def test_a_panic(call, fails) -> None:
    fails(type("PanicException", (BaseException,), {})("called `Option::unwrap()` on a `None` value"))
    code, _, err = call("show")
    assert code == 2
    assert "PanicException: called `Option::unwrap()`" in err


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/x/file"),
        RuntimeError('IO Error: Could not write file "/x/file": No space left on device'),
    ],
)
def test_a_full_disk(call, fails, error: Exception) -> None:
    fails(error)
    code, _, err = call("show")
    assert code == 2
    assert err.startswith("ioweather: No space left on device while writing")
    assert "/x/file" in err


def test_a_thread_that_fails(tmp_path: Path) -> None:
    code = (
        "import threading, sys\n"
        "import ioweather.ui.cli.main as m\n"
        "def failing(): raise ZeroDivisionError('in a thread')\n"
        "def run(_):\n"
        "    t = threading.Thread(target=failing); t.start(); t.join(); return 0\n"
        "m.run = run\n"
        "m.main([])\n"
    )
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "This is a bug in ioweather" in done.stderr
    assert "ZeroDivisionError: in a thread" in done.stderr


def test_what_is_not_installed_is_named_with_the_remedy(call, fails) -> None:
    fails(ModuleNotFoundError("No module named 'deltalake.x'", name="deltalake.x"))
    code, _, err = call("show")
    assert code == 2
    assert "This needs deltalake, which is not installed here." in err
    assert "pip install ioweather" in err
    fails(ModuleNotFoundError("No module named 'ioweather.lost'", name="ioweather.lost"))
    assert "This is a bug in ioweather" in call("show")[2]
