"""A lake in object storage, `s3://bucket/prefix`, instead of a directory.

Tables with their logs, seals, lake.json and facility.toml are objects. Each machine has a working directory with the
layout of a lake: copies of objects, fetched at their first use, and what belongs to one machine (caches, locks, the
queue of a server). Table files never change, and their names end with their digest: a copy is checked when it comes.

The library of tables makes all requests. It reads credentials, endpoint and region from the environment (AWS_...). A
commit is a put that the store refuses where the object exists (conditional put): writers on several hosts need no lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from deltalake._internal import DeltaFileSystemHandler

from ioweather.core.errors import LakeError
from ioweather.core.safe_files import STORE_MARKER, make_directories, write_whole
from ioweather.lake.layout import content_digest, digest_in_name

# Without the limits, a wrong address is an error after three minutes. The conditional put is what makes commits safe.
OPTIONS: Final = {
    "conditional_put": "etag",
    "connect_timeout": "5 seconds",
    "max_retries": "4",
    "retry_timeout": "30 seconds",
}
# Objects that are no tables, fetched whenever a lake is opened.
_SMALL_FILES: Final = ("lake.json", "facility.toml", "mapping.toml")
_AT_ONCE: Final = 16


@lru_cache(maxsize=256)
def store_of(root: Path) -> str | None:
    """The address of the lake whose working directory this is; None for a lake in a directory."""
    with suppress(OSError):
        return (root / STORE_MARKER).read_text("utf-8").strip() or None
    return None


@cache
def _objects(store: str) -> DeltaFileSystemHandler:
    return DeltaFileSystemHandler(store, options=OPTIONS)


def connect(root: Path) -> None:
    """Fetch the small files of the lake. The store's copies count."""
    fetch(root, (root / name for name in _SMALL_FILES), again=True)


def upload_small_files(root: Path) -> None:
    """Upload the small files of a new lake: lake.json last, which makes it one."""
    upload(root, (root / name for name in reversed(_SMALL_FILES) if (root / name).exists()))


def fetch(root: Path, paths: Iterable[str | Path], *, again: bool = False) -> None:
    """Fetch files below `root` that the working directory lacks; with `again`, also those that it has. Files that the
    store does not have stay missing. Does nothing for a lake in a directory."""
    store = store_of(root)
    if store is None:
        return
    wanted = [path for path in map(Path, paths) if again or not path.exists()]
    if len(wanted) < 2:
        for path in wanted:
            _fetch_one(store, root, path)
        return
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(lambda path: _fetch_one(store, root, path), wanted):
            pass


def _fetch_one(store: str, root: Path, path: Path) -> None:
    try:
        with suppress(FileNotFoundError):
            file = _objects(store).open_input_file(path.relative_to(root).as_posix())
            data = file.read(file.size())
            make_directories(path.parent, root)
            write_whole(path, data, 0o644 if path.parent == root else 0o444)
    except OSError as error:
        raise _unreachable(store, error) from None
    digest = digest_in_name(path)
    if digest is not None and path.exists() and content_digest(path) != digest:
        path.unlink()
        raise LakeError(f"{store}/{path.relative_to(root)} is damaged: its content differs from the written data.")


def upload(root: Path, paths: Iterable[Path]) -> None:
    """Write these files of the working directory to the store. Does nothing for a lake in a directory."""
    store = store_of(root)
    if store is None:
        return
    for path in paths:
        try:
            stream = _objects(store).open_output_stream(path.relative_to(root).as_posix())
            stream.write(path.read_bytes())
            stream.close()  # type: ignore[attr-defined]  # missing in its stubs
        except OSError as error:
            raise _unreachable(store, error) from None


def remove(root: Path, paths: Iterable[Path]) -> None:
    """Remove these objects; those that are not there are no error."""
    store = store_of(root)
    if store is None:
        return
    for path in paths:
        with suppress(OSError):
            _objects(store).delete_file(path.relative_to(root).as_posix())


def _unreachable(store: str, error: Exception) -> LakeError:
    reason = str(error).splitlines()[0]
    hint = "Check AWS_ENDPOINT_URL, AWS_REGION and the credentials; AWS_ALLOW_HTTP=true allows an http address."
    return LakeError(f"{store} cannot be used: {reason}.", hint=hint)
