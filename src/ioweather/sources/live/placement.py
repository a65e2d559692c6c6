"""Files on storage targets of one's choice: which targets a directory's file system has, and a file on each.

Lustre places a file where it is told (`lfs setstripe -i`). MooseFS chooses itself, and says where a file lies
(`mfsfileinfo`): files are made until every server has one, a bounded number.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ioweather.core.errors import SourceError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.sources.mounts import file_system_of

_OST: Final = re.compile(r"^ *([0-9]+): +(\S+) +ACTIVE", re.MULTILINE)
_COPY: Final = re.compile(r"copy \d+: (\S+?:\d+)")
# Of MooseFS: files in a row that bring no new server before the search for one is given up, and of all.
_TRIES, _MOST_FILES = 12, 1000
_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Placed:
    """A file in the directory, and the target that holds it."""

    name: str
    component: str


def place_on_ost(folder: PrivateDirectory, name: str, ost: int) -> None:
    """An empty file whose one stripe lies on this OST."""
    if shutil.which("lfs") is None:
        raise SourceError("files are placed on OSTs by `lfs`, which is not here.", hint="Leave --osts out.")
    _told(folder, ["lfs", "setstripe", "-c", "1", "-i", str(ost), name])


def place_on_all(folder: PrivateDirectory, make: Callable[[str], None]) -> list[Placed]:
    """A file on every target; `make` writes a file of this name, which may be there already, empty."""
    kind = file_system_of(os.path.realpath(folder.path))[1] or ""
    if kind == "lustre" and shutil.which("lfs"):
        return _on_osts(folder, make)
    if kind.startswith("fuse") and shutil.which("mfsfileinfo"):  # which says so itself where it is another one
        return _on_chunk_servers(folder, make)
    raise SourceError(
        f"{folder.path} lies on {kind or 'a file system'} that does not say where files lie.",
        hint="Targets are probed one by one on Lustre (with `lfs`) and MooseFS (with `mfsfileinfo`).",
    )


def osts_of(folder: PrivateDirectory) -> list[tuple[int, str]]:
    """Numbers and names of the active OSTs; none where this is not Lustre."""
    kind = file_system_of(os.path.realpath(folder.path))[1]
    if kind != "lustre" or shutil.which("lfs") is None:
        return []
    return [
        (int(number), name.removesuffix("_UUID")) for number, name in _OST.findall(_told(folder, ["lfs", "osts", "."]))
    ]


def _on_osts(folder: PrivateDirectory, make: Callable[[str], None]) -> list[Placed]:
    found = []
    for number, component in osts_of(folder):
        name = f"target-{number:04x}"
        if name not in folder.names():
            place_on_ost(folder, name, number)
        make(name)
        found.append(Placed(name, component))
    return found


def _on_chunk_servers(folder: PrivateDirectory, make: Callable[[str], None]) -> list[Placed]:
    """New chunks go to servers in turn, by their free space: soon each has one, and the rest is removed."""
    kept: dict[str, str] = {}
    spare: list[str] = []
    in_vain = 0
    for number in range(_MOST_FILES):
        name = f"target-{number:04x}"
        make(name)
        servers = _COPY.findall(_told(folder, ["mfsfileinfo", name]))
        # A file with copies on several servers tells of none.
        is_new = len(servers) == 1 and servers[0] not in kept
        in_vain = 0 if is_new else in_vain + 1
        if is_new:
            kept[servers[0]] = name
        else:
            spare.append(name)
        if in_vain >= max(_TRIES, 3 * len(kept)):
            break
    for name in spare:
        folder.discard(name)
    return [Placed(name, server) for server, name in sorted(kept.items())]


def _told(folder: PrivateDirectory, command: list[str]) -> str:
    """What a program of the file system says, run in the directory that was checked, whatever has its name now."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=f"/proc/self/fd/{folder.fd}"
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"{' '.join(command)} in {folder.path} takes longer than {_SECONDS:g} s.") from None
    if done.returncode != 0:
        raise SourceError(f"{' '.join(command)} in {folder.path}: {done.stderr.strip() or done.returncode}.")
    return done.stdout
