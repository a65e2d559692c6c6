"""Files on storage targets of one's choice: which targets a directory's file system has, and a file on each.

Lustre places a file where it is told (`lfs setstripe -i`), and a directory on a metadata target (`lfs mkdir -i`).
MooseFS chooses itself, and says where a file lies (`mfsfileinfo`): files are made until every server has one, a bounded
number.

Where files lie is noted beside them: of one on a server that stands still, nobody may be able to say it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ioweather.agent.sensor import run_tool
from ioweather.core.errors import SourceError, UnsafePlace
from ioweather.core.safe_files import PrivateDirectory, file_system_of

_ACTIVE: Final = re.compile(r"^ *([0-9]+): +(\S+) +ACTIVE", re.MULTILINE)
_COPY: Final = re.compile(r"copy \d+: (\S+?:\d+)")
# Of MooseFS: files in a row that bring no new server before the search for one is given up, and of all.
_TRIES, _MOST_FILES = 12, 1000
_SECONDS: Final = 30.0
NOTE: Final = "placed.json"


@dataclass(frozen=True)
class Placed:
    """A file in the directory, or a folder in it, and the target that holds it."""

    name: str
    component: str


@dataclass(frozen=True)
class Placement:
    """A file on each target, a folder on each metadata target; `without` are targets that got none, and why."""

    files: list[Placed]
    folders: list[Placed]
    without: dict[str, str]


def place_on_ost(folder: PrivateDirectory, name: str, ost: int) -> None:
    """An empty file whose one stripe lies on this OST."""
    if shutil.which("lfs") is None:
        raise SourceError("files are placed on OSTs by `lfs`, which is not here.", hint="Leave --osts out.")
    _told(folder, ["lfs", "setstripe", "-c", "1", "-i", str(ost), name])


def place_on_all(folder: PrivateDirectory, make: Callable[[str], None]) -> Placement:
    """A file on every target; `make` writes a file of this name, which may be there already, empty. A target that takes
    none now, for it stands still or is full, does not keep the others from theirs."""
    kind = file_system_of(os.path.realpath(folder.path))[1] or ""
    if kind == "lustre" and shutil.which("lfs"):
        return _on_lustre(folder, make)
    if kind.startswith("fuse") and shutil.which("mfsfileinfo"):  # which says so itself where it is another one
        found = Placement(_on_chunk_servers(folder, make), [], {})
        folder.replace(NOTE, json.dumps({each.name: each.component for each in found.files}).encode())
        return found
    raise SourceError(
        f"{folder.path} lies on {kind or 'a file system'} that does not say where files lie.",
        hint="Targets are probed one by one on Lustre (with `lfs`) and MooseFS (with `mfsfileinfo`).",
    )


def osts_of(folder: PrivateDirectory, kinds: Literal["osts", "mdts"] = "osts") -> list[tuple[int, str]]:
    """Numbers and names of the active OSTs, or MDTs; none where this is not Lustre."""
    kind = file_system_of(os.path.realpath(folder.path))[1]
    if kind != "lustre" or shutil.which("lfs") is None:
        return []
    return [
        (int(number), name.removesuffix("_UUID"))
        for number, name in _ACTIVE.findall(_told(folder, ["lfs", kinds, "."]))
    ]


def _on_lustre(folder: PrivateDirectory, make: Callable[[str], None]) -> Placement:
    placement = Placement([], [], {})
    there = set(folder.names())
    for number, component in osts_of(folder):
        name = f"target-{number:04x}"
        try:
            if name not in there:
                place_on_ost(folder, name, number)
            make(name)
            placement.files.append(Placed(name, component))
        except (SourceError, OSError) as error:
            placement.without[component] = str(error)
    mdts = osts_of(folder, "mdts")
    for number, component in mdts:
        name = f"metadata-{number:04x}"
        try:
            if name not in there and len(mdts) > 1:  # to choose one needs a right that not everybody has
                _told(folder, ["lfs", "mkdir", "-i", str(number), name])
            folder.inside(name).close()
            placement.folders.append(Placed(name, component))
        except (SourceError, UnsafePlace, OSError) as error:
            placement.without[component] = str(error)
    return placement


def _on_chunk_servers(folder: PrivateDirectory, make: Callable[[str], None]) -> list[Placed]:
    """New chunks go to servers in turn, by their free space: soon each has one, and the rest is removed."""
    noted = _noted(folder)
    kept: dict[str, str] = {}
    spare: list[str] = []
    in_vain = 0
    for number in range(_MOST_FILES):
        name = f"target-{number:04x}"
        make(name)
        servers = _COPY.findall(_told(folder, ["mfsfileinfo", name])) or noted.get(name, [])
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


def _noted(folder: PrivateDirectory) -> dict[str, list[str]]:
    try:
        return {str(name): [str(server)] for name, server in json.loads(folder.read(NOTE)).items()}
    except (OSError, ValueError, AttributeError):  # none, or not ours
        return {}


def _told(folder: PrivateDirectory, command: list[str]) -> str:
    """Output of a program of the file system, run in the directory that was checked, whatever has its name now."""
    what = f"{' '.join(command)} in {folder.path}"
    return run_tool(command, _SECONDS, what=what, cwd=f"/proc/self/fd/{folder.fd}")
