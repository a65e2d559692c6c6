"""Mount points: where a tree ends and another file system begins."""

from __future__ import annotations

import re
from pathlib import Path


def _mounts() -> list[tuple[str, str]]:
    """Mount points and types, in the order of mounting; empty where the kernel does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        fields = [line.split(" ") for line in lines]
        return [(_unescaped(line[4]), line[line.index("-") + 1]) for line in fields]
    except (OSError, ValueError, IndexError):
        return []


def mount_points_below(root: str) -> frozenset[str]:
    """Mount points inside the tree, those of the same file system (bind mounts) too. Where none are known, the device
    number alone tells where another file system begins."""
    inside = root.rstrip("/") + "/"
    return frozenset(point for point, _ in _mounts() if point.startswith(inside))


def file_system_of(root: str) -> tuple[str | None, str | None]:
    """Mount point and type of the file system that holds the directory."""
    best: tuple[str | None, str | None] = (None, None)
    for point, kind in _mounts():
        holds = root == point or root.startswith(point.rstrip("/") + "/")
        if holds and len(point) >= len(best[0] or ""):  # of two mounts on one place the later one is seen
            best = (point, kind)
    return best


def _unescaped(text: str) -> str:
    """The kernel writes blanks and backslashes of mount points as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
