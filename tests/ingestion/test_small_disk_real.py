"""A real file system with too little space, and one with a quota: every command says so, and completes later."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_scenarios import FORGET, RESTORE, RETENTION, SCENARIOS, Places, Scenario, copy_places
from warm_commands import WarmCommands, warm_commands

pytestmark = pytest.mark.real
_FREE = (0, 8, 64, 256)  # KiB that are left when a command begins


@pytest.fixture(scope="module")
def commands() -> Iterator[WarmCommands]:
    with warm_commands() as found:
        yield found


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """24 MiB of ext4, none of it kept for root."""
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(24 << 20)
    made = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or made is None:
        pytest.skip("a file system can be made by root alone, with mkfs.ext4")
    subprocess.run([made, "-q", "-m", "0", "-N", "4000", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, place], check=False, capture_output=True).returncode:
        pytest.skip("loop devices cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def _fill(disk: Path, left_bytes: int) -> Path:
    filler = disk / "filler"
    state = os.statvfs(disk)
    size = max(0, state.f_bavail * state.f_frsize - left_bytes)
    with filler.open("wb") as file:
        file.flush()
        os.posix_fallocate(file.fileno(), 0, max(1, size - (64 << 10)))
        try:
            while os.statvfs(disk).f_bavail * state.f_frsize > left_bytes:
                file.seek(0, os.SEEK_END)
                file.write(bytes(4096))
                file.flush()
        except OSError:
            pass
    return filler


@pytest.mark.parametrize(
    "scenario", [*SCENARIOS[:2], *SCENARIOS[3:4], SCENARIOS[5], FORGET, RESTORE, RETENTION],
    ids=lambda scenario: scenario.name.replace(" ", "-"),
)  # fmt: skip
def test_a_command_on_a_full_disk_says_so_and_completes_when_there_is_space(
    scenario: Scenario, commands: WarmCommands, disk: Path, tmp_path: Path
) -> None:
    template = Places(tmp_path / "template/here", tmp_path / "template/beside")
    for place in (template.here, template.beside):
        place.mkdir(parents=True)
    scenario.prepare(commands, template)
    whole = Places(tmp_path / "whole/here", tmp_path / "whole/beside")
    copy_places(template, whole.here, whole.beside)
    ended = commands.run(*scenario.arguments(whole))
    assert ended.code == 0, ended
    expected = scenario.state(whole)
    refused = 0
    for free in _FREE:
        places = Places(disk / f"here{free}", tmp_path / f"beside{free}/beside")
        copy_places(template, places.here, places.beside)
        arguments = scenario.arguments(Places(template.here, places.beside)) if scenario is FORGET else None
        arguments = [*arguments[:-1], places.here / "lake"] if arguments else scenario.arguments(places)
        filler = _fill(disk, free << 10)
        ended = commands.run(*arguments)
        assert ended.is_clear, (free, ended)
        assert "This is a fault" not in ended.errors, (free, ended)
        if ended.code == 0:
            assert scenario.state(places) == expected, free
        refused += ended.code != 0
        filler.unlink()
        if scenario is RESTORE:  # only into a new place
            shutil.rmtree(places.here / "lake", ignore_errors=True)
        again = commands.run(*arguments)
        assert again.code == 0 or (scenario.done and scenario.done in " ".join(again.errors.split())), (free, again)
        assert scenario.state(places) == expected, (free, ended)
        shutil.rmtree(places.here)
    print(f"\n{scenario.name}: {refused} of {len(_FREE)} were refused for want of space")
