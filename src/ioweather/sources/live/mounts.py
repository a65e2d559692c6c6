"""Which mount a path lies on. Reads /proc alone: a mount that hangs is not touched."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_point(path: str, mountinfo: str | None = None) -> str:
    """The mount that holds an absolute path, by name alone: links are not followed."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return "/"
    best = "/"
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) < 5:
            continue
        # proc(5): blanks and backslashes are written in octal.
        point = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        if is_inside(path, point) and len(point) > len(best):
            best = point
    return best


def system_of(path: str) -> str:
    """The raw name of a probed system: 'mount:/scratch'."""
    return f"mount:{mount_point(os.path.abspath(path))}"  # noqa: PTH100 - Path.absolute keeps '..'
