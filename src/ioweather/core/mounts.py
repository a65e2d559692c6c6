"""Which mount a path lies on. Reads /proc alone: a mount that hangs is not touched."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def file_system_of(path: str, mountinfo: str | None = None) -> tuple[str | None, str | None]:
    """Mount point and type of the file system that holds an absolute path, by name alone: links are not followed."""
    best: tuple[str | None, str | None] = (None, None)
    for point, kind in _mounts(mountinfo):
        # Of two mounts on one place the later one is seen.
        if is_inside(path, point) and len(point) >= len(best[0] or ""):
            best = (point, kind)
    return best


def mount_point(path: str, mountinfo: str | None = None) -> str:
    return file_system_of(path, mountinfo)[0] or "/"


def mount_points_below(root: str) -> frozenset[str]:
    """Mount points inside the tree, those of the same file system (bind mounts) too. Where none are known, the device
    number alone tells where another file system begins."""
    return frozenset(point for point, _ in _mounts() if point != root and is_inside(point, root))


def system_of(path: str) -> str:
    """The raw name of a probed system: 'mount:/scratch'."""
    return f"mount:{mount_point(os.path.abspath(path))}"  # noqa: PTH100 - Path.absolute keeps '..'


def _mounts(mountinfo: str | None = None) -> list[tuple[str, str | None]]:
    """Mount points and types, in the order of mounting; empty where the kernel does not say."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return []
    rows = [line.split(" ") for line in mountinfo.splitlines()]
    return [(_unescaped(row[4]), _type(row)) for row in rows if len(row) > 4]


def _type(row: list[str]) -> str | None:
    """proc(5): a dash ends the optional fields, and the type follows it."""
    behind = row[row.index("-") + 1 :] if "-" in row else []
    return behind[0] if behind else None


def _unescaped(text: str) -> str:
    """proc(5): blanks and backslashes are written in octal."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
