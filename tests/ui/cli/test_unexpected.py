"""An error that nobody foresaw: one line, a file to send, and no traceback unless it is asked for."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ioweather._version import __version__


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The command `show` raises what it is given."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("IOWEATHER_DEBUG", raising=False)

    def with_error(error: BaseException) -> None:
        import ioweather.topics.analyse as analyse

        def failing(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(analyse, "catalogue_only", failing)
        monkeypatch.setattr(analyse, "availability", failing)
        monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "no lake"))

    return with_error


def test_one_line_and_a_file_with_what_to_send(call, fails, tmp_path: Path) -> None:
    fails(ZeroDivisionError("by\x1b[31m\nforged"))
    code, _, err = call("show")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert err.startswith(f"ioweather: This is a bug in ioweather {__version__}: ZeroDivisionError: by\\x1b[31m forged")
    [file] = (tmp_path / "ioweather" / "errors").iterdir()
    assert str(file) in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    assert __version__ in text
    assert "Command: " in text
    assert "Traceback (most recent call last)" in text
    assert "\x1b" not in text


def test_only_the_newest_files_are_kept(call, fails, tmp_path: Path) -> None:
    folder = tmp_path / "ioweather" / "errors"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"error-20200101T0000{number:02}-1.txt").write_text("old")
    fails(RecursionError())
    call("show")
    left = sorted(path.name for path in folder.iterdir())
    assert len(left) == 20
    assert left[0] == "error-20200101T000011-1.txt"


def test_a_panic_and_a_place_that_cannot_be_written(call, fails, tmp_path: Path) -> None:
    (tmp_path / "ioweather").write_text("a file")
    fails(type("PanicException", (BaseException,), {})("called `Option::unwrap()` on a `None` value"))
    code, _, err = call("show")
    assert code == 2
    assert "PanicException: called `Option::unwrap()`" in err
    assert "no file was written" in err


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


def test_the_traceback_is_shown_where_it_is_asked_for(call, fails, monkeypatch: pytest.MonkeyPatch) -> None:
    fails(ZeroDivisionError("x"))
    monkeypatch.setenv("IOWEATHER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call("show")


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
    assert "Traceback" not in done.stderr
    assert "ZeroDivisionError: in a thread" in done.stderr


def test_what_is_not_installed_is_named_with_the_remedy(call, fails) -> None:
    fails(ModuleNotFoundError("No module named 'deltalake.x'", name="deltalake.x"))
    code, _, err = call("show")
    assert code == 2
    assert "This needs deltalake, which is not installed here." in err
    assert "pip install ioweather" in err
    fails(ModuleNotFoundError("No module named 'ioweather.lost'", name="ioweather.lost"))
    assert "This is a bug in ioweather" in call("show")[2]
