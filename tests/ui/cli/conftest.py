"""A command, as somebody types it: what it says, and its exit code."""

from __future__ import annotations

import pytest

from ioweather.ui.cli.main import run


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def run_it(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_it
