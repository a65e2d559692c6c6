"""Mounts `fuse_passthrough.py` for tests, tells it what to disturb, and unmounts it whatever happened."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

OPERATIONS = (
    "chmod", "create", "flush", "fsync", "getattr", "link", "mkdir", "open", "read", "readdir", "release", "rename",
    "rmdir", "statfs", "truncate", "unlink", "utimens", "write",
)  # fmt: skip


class DisturbedMount:
    def __init__(self, folder: Path) -> None:
        self.backing, self.path = folder / "backing", folder / "mount"
        self.control, self.counts_file = folder / "control", folder / "counts"
        for made in (self.backing, self.path):
            made.mkdir(exist_ok=True)
        self.disturb({})

    def disturb(self, orders: Mapping[str, Mapping[str, Any]]) -> None:
        draft = self.control.with_suffix(".draft")
        draft.write_text(json.dumps(orders))
        draft.replace(self.control)

    @property
    def counts(self) -> dict[str, float]:
        return json.loads(self.counts_file.read_text()) if self.counts_file.exists() else {}


@contextmanager
def disturbed_mount(folder: Path, *, uncached: bool = False) -> Iterator[DisturbedMount]:
    library = ctypes.util.find_library("fuse3")
    if os.geteuid() != 0 or not Path("/dev/fuse").exists() or library is None or not shutil.which("fusermount3"):
        pytest.skip("FUSE is not here (needs root, /dev/fuse and apt-get install fuse3)")
    pytest.importorskip("mfusepy")  # it looks for the library when it is imported
    mount = DisturbedMount(folder)
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("fuse_passthrough.py")), str(mount.backing), str(mount.path),
         str(mount.control), str(mount.counts_file), *(["--uncached"] if uncached else [])],
        env={**os.environ, "FUSE_LIBRARY_PATH": library}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(500):
            if mount.path.is_mount():
                break
            time.sleep(0.02)
        else:
            pytest.skip("FUSE does not mount here")
        yield mount
    finally:
        mount.disturb({})
        subprocess.run(["fusermount3", "-u", "-z", str(mount.path)], check=False, stderr=subprocess.DEVNULL)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
