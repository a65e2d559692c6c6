"""The files of a lake, and its schema version.

<lake>/lake.json         schema version; written once, exclusively
<lake>/facility.toml     names and properties of the facility
<lake>/mapping.toml      mapping of labelled samples (Prometheus), besides the mappings that are shipped
<lake>/tables/<name>/    Delta tables, partitioned by UTC day
<lake>/seals/<day>.json  groups of a sealed day of `series`, and its files
<lake>/records/          cached results; computed again where one is missing
<lake>/.store            address of a lake in object storage: this is then its working directory (`object_store`)
<lake>/checked.json      when `lake check` ran last, and what it found
<lake>/damaged/          table files that `lake check --set-aside` took out
<lake>/catch_up.json     where the next pass of `ingest --watch` begins, and the result of the last one
<lake>/inbox/<host>/     last status of each host that pushes
<lake>/queue/            checked rows of pushed files that are not in the tables yet
<lake>/refused/          checked rows that could not be written to the tables
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from ioweather._version import __version__
from ioweather.core.errors import LakeError, UnsafePlace
from ioweather.core.safe_files import STORE_MARKER, PrivateDirectory
from ioweather.core.safe_files import default_lake_dir as default_lake_dir
from ioweather.core.units import now_ns

# Version of the schemas of all tables together; lake.json has the one that the lake was written with.
SCHEMA_VERSION: Final = 1


def lake_marker(root: Path) -> Path:
    return root / "lake.json"


def is_lake(root: Path) -> bool:
    """Whether the directory is a lake, or the working directory of one in object storage."""
    return lake_marker(root).exists() or (root / STORE_MARKER).exists()


def tables_dir(root: Path) -> Path:
    return root / "tables"


def seals_dir(root: Path) -> Path:
    return root / "seals"


def facility_file(root: Path) -> Path:
    return root / "facility.toml"


def create_lake(root: Path) -> None:
    """Make an empty lake; another process may make it at the same time."""
    hint = "Use another directory (--lake, or --out for a demo)."
    if unquote(str(root.absolute())) != str(root.absolute()):
        raise LakeError(f"{root} contains a percent code such as %20, which Delta tables reject.", hint=hint)
    try:
        opened = lake_directory(root, new=True)
    except OSError as error:
        raise LakeError(f"Cannot create {root}: {error.strerror}.", hint=hint) from None
    with opened as folder:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(folder.fd, fcntl.LOCK_EX)  # one process makes the lake, the others find it made
        # A draft belongs to a process that was killed.
        known = ("lake.json", "facility.toml", STORE_MARKER)
        foreign = [name for name in folder.names() if name not in known and not name.startswith(".lake.json.")]
        if foreign and not lake_marker(root).exists():
            raise LakeError(
                f"{root} is neither empty nor a lake (it contains {foreign[0]}).", hint="Use an empty or new directory."
            )
        body = {"schema_version": SCHEMA_VERSION, "created_ns": now_ns(), "software_version": __version__}
        if not lake_marker(root).exists():
            folder.replace(lake_marker(root).name, json.dumps(body).encode() + b"\n", 0o644)


def lake_directory(root: Path, *, new: bool = False) -> PrivateDirectory:
    """Open the lake's directory for writing. A new one is private, because it contains paths and user names, and must
    be in a directory of this user or of root. The owner may let a group write or everybody read; never everybody
    write."""
    if not new and not root.exists():
        raise LakeError(f"{root} no longer exists.", hint="Create a lake with `ioweather ingest FILE --lake DIR`.")
    folder = PrivateDirectory.named(root, mode=0o750, keep=0o770 if new else 0o775, shared=True)
    owner = os.fstat(folder.fd).st_uid
    if new and owner not in (0, os.geteuid()):
        folder.close()
        raise UnsafePlace(
            f"{root} belongs to uid {owner}, not to uid {os.geteuid()}.",
            hint="Nothing was written. Use another directory.",
        )
    return folder


@contextmanager
def locked(file: Path) -> Iterator[int | None]:
    """A descriptor of the file, locked as long as this context; None where another process has it locked. On a file
    system without locks it is as if there were no other process."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        except OSError:
            pass  # a file system without locks
        yield fd
    finally:
        os.close(fd)


def check_version(root: Path) -> None:
    """Refuse a lake of another schema version; never misread. New nullable columns and new tables keep the version:
    reads fill what older files lack with null."""
    marker = lake_marker(root)
    try:
        found = int(json.loads(marker.read_text(encoding="utf-8"))["schema_version"])
    except FileNotFoundError:
        raise LakeError(f"{root} is not a lake.", hint="Create one with `ioweather ingest FILE --lake DIR`.") from None
    except OSError as error:
        raise LakeError(f"Cannot read {marker}: {error.strerror}.", hint="Check the disk.") from None
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{marker} is damaged: it has no schema_version.") from None
    is_older = found < SCHEMA_VERSION
    if found != SCHEMA_VERSION:
        raise LakeError(
            f"{root} has schema version {found}; this version of ioweather needs {SCHEMA_VERSION}"
            + (" and cannot convert it." if is_older else "."),
            hint="Ingest the original files into a new lake." if is_older else "Upgrade ioweather.",
            kind="LakeVersionError",
        )


# Digests of files, in their names.
_NAME_WITH_DIGEST: Final = re.compile(r"-([0-9a-f]{32})\.zstd\.parquet$")


def content_digest(path: Path) -> str:
    """BLAKE2 digest of the file, as in the names of table files."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def digest_in_name(path: str | Path) -> str | None:
    """The digest in the name of a table file; None for files that ioweather 0.2 or another program wrote."""
    found = _NAME_WITH_DIGEST.search(str(path))
    return found[1] if found else None


def damaged_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files that are missing, or whose content has another digest than their name says."""
    damaged = []
    for path in map(Path, paths):
        expected = digest_in_name(path)
        try:
            is_good = content_digest(path) == expected if expected else path.stat().st_size > 0
        except FileNotFoundError:
            is_good = False
        damaged += [] if is_good else [path]
    return damaged


def require_undamaged(paths: Iterable[str | Path]) -> None:
    """Raise LakeError if one is damaged: a file made from it would be wrong, and have a valid digest."""
    if damaged := damaged_files(paths):
        more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
        raise LakeError(
            f"{damaged[0]}{more} is damaged or missing.",
            hint="`ioweather lake check` lists the damage. With `--set-aside`, the other files stay usable.",
        )
