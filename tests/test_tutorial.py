"""A newcomer's walk: every command of the tutorial runs, in an empty home, and shows the lines that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).resolve().parents[1] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(console|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[list[str], list[str]]]:
    """(commands, lines that must appear), in the order of the page."""
    found: list[tuple[list[str], list[str]]] = []
    for kind, body in _BLOCK.findall(TUTORIAL.read_text("utf-8")):
        lines = body.rstrip("\n").split("\n")
        if kind == "console":
            found.append(([line.removeprefix("$ ") for line in lines if line.startswith("$ ")], []))
        else:
            found[-1][1].extend(lines)
    return found


def test_the_page_leads_from_nothing_to_a_verdict():
    commands = [command for commands, _ in steps() for command in commands]
    assert 8 <= len(commands) <= 14
    assert commands[0].startswith("ioweather simulate")
    assert any(command.startswith("ioweather why") for command in commands)
    assert sum(len(lines) for _, lines in steps()) >= 8


def test_every_command_of_the_tutorial_works(tmp_path):
    home, work, programs = tmp_path / "home", tmp_path / "work", tmp_path / "bin"
    for folder in (home, work, programs):
        folder.mkdir()
    (programs / "ioweather").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ioweather "$@"\n')
    (programs / "ioweather").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IOWEATHER_", "XDG_"))}
    environment = kept | {
        "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "80", "NO_COLOR": "1",
    }  # fmt: skip
    for commands, lines in steps():
        shown = ""
        for command in commands:
            done = subprocess.run(
                command, shell=True, cwd=work, env=environment, capture_output=True, text=True, timeout=240
            )
            if done.returncode:
                pytest.fail(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            shown += done.stdout + done.stderr
        flat = " ".join(shown.split())
        for line in lines:
            assert line in flat, f"after {commands}"
