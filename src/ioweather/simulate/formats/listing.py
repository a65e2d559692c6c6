"""A list of all files as `find -printf '%y %D %i %s %b %T@ %A@ %C@ %U %G %n %p\\n'` prints it."""

from __future__ import annotations

from pathlib import Path

from ioweather.simulate.resources import Calendar
from ioweather.simulate.scans import Content

_DEVICE = 64_768


def write_listing(path: Path, content: Content, calendar: Calendar, root: str) -> None:
    folders = sorted({(int(p), int(u)) for p, u in zip(content.project, content.uid, strict=True)})
    start = calendar.start
    with path.open("w", encoding="utf-8") as file:
        inode = 2
        for name in (root, *(f"{root}/{project}" for project in content.projects),
                     *(f"{root}/{content.projects[p]}/u{uid}" for p, uid in folders)):  # fmt: skip
            file.write(
                f"d {_DEVICE} {inode} 4096 8 {start}.0000000000 {start}.0000000000 {start}.0000000000 0 0 2 {name}\n"
            )
            inode += 1
        columns = (content.uid, content.project, content.number, content.size, content.mtime, content.atime)
        for uid, project, number, size, mtime, atime in zip(*(c.tolist() for c in columns), strict=True):
            changed, read = start + mtime, start + atime
            file.write(
                f"f {_DEVICE} {1000 + number} {size} {-(-size // 4096) * 8} {changed:.9f}0 {read:.9f}0 {changed:.9f}0 "
                f"{uid} {5000 + project} 1 {root}/{content.projects[project]}/u{uid}/f{number:08d}.dat\n"
            )
