"""Runs `ioweather` commands in children of a process that has loaded everything: 0.1 s instead of a second each.

    python warm_commands.py < requests > answers

A request is a line {"arguments": [...], "seconds": 300, "kill_at": 0}; an answer {"code": 0, "output": ..., "errors":
..., "changes": 12}. Arguments that begin with `-m MODULE` go to the `main` of that module. The parent itself never
opens a lake: the threads that does start do not survive a fork. A code
below 0 is a signal; None means that the command did not end in time. With `kill_points.c` loaded, the command is killed
at the call that `kill_at` counts, and `changes` tells how many there are.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    code: int | None
    output: str
    errors: str
    changes: int = 0

    @property
    def is_clear(self) -> bool:
        """An end without a traceback or a panic; one that did not do its work says why in one line."""
        text = self.output + self.errors
        if self.code not in (0, 1, 2) or any(word in text for word in ("Traceback", "panicked", "RUST_BACKTRACE")):
            return False
        return self.code == 0 or bool(text.strip())


class WarmCommands:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *arguments: object, seconds: float = 300, kill_at: int = 0) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": list(map(str, arguments)), "seconds": seconds, "kill_at": kill_at}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))


@contextmanager
def warm_commands(**environment: str) -> Iterator[WarmCommands]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    ) as process:  # fmt: skip
        try:
            yield WarmCommands(process)
        finally:
            process.kill()


@contextmanager
def killable_commands(folder: Path) -> Iterator[WarmCommands]:
    """With `kill_points.c` between them and the C library."""
    with warm_commands(LD_PRELOAD=str(preloaded("kill_points", folder))) as found:
        yield found


def preloaded(name: str, folder: Path) -> Path:
    """A library to stand between a command and the C library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library = folder / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def _run_child(arguments: list[str], output: int, errors: int, changes: int, kill_at: int) -> None:
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    code = 70
    points = ctypes.CDLL(None)
    try:
        from ioweather.ui.cli.main import run

        if arguments[0] == "-m":
            _, module, *arguments = arguments
            os.nice = lambda increment: 0  # a busy machine would make its tests wait for a background child
            run = importlib.import_module(module).main
        if hasattr(points, "kill_at"):
            points.kill_at(ctypes.c_long(kill_at))
        code = run(arguments)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        if hasattr(points, "changes"):
            os.write(changes, str(points.changes()).encode())
        os._exit(code)


def _answer(request: dict[str, Any]) -> Ended:
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as changes:
        files = (output, errors, changes)
        child = os.fork()
        if not child:
            _run_child(request["arguments"], *(file.fileno() for file in files), request["kill_at"])
        code = _wait(child, time.monotonic() + request["seconds"])
        texts = []
        for file in files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Ended(code, texts[0], texts[1], int(texts[2] or 0))


def _wait(child: int, until: float) -> int | None:
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.killpg(child, 9)
            os.waitpid(child, 0)
            return None
        time.sleep(0.002)


def main() -> None:

    for line in sys.stdin:
        print(json.dumps(vars(_answer(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
