"""Two real users, Mallory who plants and Alice who measures: processes run as their uids by setpriv(1). Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

MALLORY, ALICE, ROOT = 54321, 54322, 0


@dataclass
class Town:
    """`shared` is a directory as /tmp is (1777); `home` is Alice's alone."""

    root: Path

    @property
    def shared(self) -> Path:
        return self.root / "shared"

    def home(self, uid: int) -> Path:
        return self.root / f"home{uid}"

    def run_as(self, uid: int, *command: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*_as(uid), *map(str, command)], capture_output=True, text=True, check=False, timeout=timeout,
            env=self.environment(uid), cwd=self.root,
        )  # fmt: skip

    def start_as(self, uid: int, *command: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*_as(uid), *map(str, command)], env=self.environment(uid), cwd=self.root,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ioweather(self, uid: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.run_as(uid, sys.executable, "-m", "ioweather", *arguments)

    def require_children(self, uid: int) -> None:
        """For commands that start others: setpriv(1) itself may read what its user may not."""
        if self.run_as(uid, "sh", "-c", f"exec {sys.executable} -c 'import ioweather'").returncode:
            pytest.skip("another user cannot read this interpreter")

    def environment(self, uid: int) -> dict[str, str]:
        home = self.home(uid)
        kept = {name: value for name, value in os.environ.items() if name not in ("IOWEATHER_LAKE", "IOWEATHER_SPOOL")}
        kept = {name: value for name, value in kept.items() if not name.startswith("XDG_")}
        return {**kept, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}

    def plant(self, script: str) -> None:
        """By Mallory, in a shell that stands in the shared directory."""
        done = self.run_as(MALLORY, "sh", "-ec", f"umask 0; cd {self.shared}\n{script}")
        assert done.returncode == 0, done.stderr


@contextmanager
def acting_as(uid: int) -> Iterator[None]:
    """This process as that user, for what needs no command: the kernel decides by the effective ids."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _as(uid: int) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []


@contextmanager
def town() -> Iterator[Town]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("two users need root and setpriv(1)")
    # Not below pytest's own directory, which is closed to others.
    root = Path(tempfile.mkdtemp(prefix="ioweather-town-"))
    made = Town(root)
    try:
        root.chmod(0o755)
        made.shared.mkdir()
        made.shared.chmod(0o1777)
        for uid in (MALLORY, ALICE, ROOT):
            made.home(uid).mkdir(mode=0o700)
            os.chown(made.home(uid), uid, uid)
        if made.run_as(ALICE, sys.executable, "-c", "import ioweather").returncode:
            pytest.skip("another user cannot read this installation")
        yield made
    finally:
        shutil.rmtree(root)


def facts_of(tree: Path) -> dict[str, tuple[object, ...]]:
    """Content, mode, owner and time of change of every file below: what must be the same afterwards."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([tree, *tree.rglob("*")]):
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (stat.st_ino, stat.st_mode, stat.st_uid, stat.st_nlink, stat.st_mtime_ns, content)
    return found
