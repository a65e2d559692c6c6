"""A real MooseFS: a metadata server and some chunk servers in a network namespace of their own, mounted here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_PROGRAMS = ("mfsmaster", "mfschunkserver", "mfsmount", "mfsfileinfo", "mfssetgoal", "unshare", "nsenter", "ip")
_ADDRESS = "10.77.0.1"  # MooseFS refuses the loopback address
_PORTS = 19419
_EMPTY = Path("/var/lib/mfs/metadata.mfs.empty")


def why_not() -> str | None:
    """Why there can be none here."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    missing = [name for name in _PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root"
    if not Path("/dev/fuse").exists():
        return "no /dev/fuse"
    return None if _empty_metadata() else "no metadata.mfs.empty"


def _empty_metadata() -> Path | None:
    places = (_EMPTY, Path("/usr/share/doc/moosefs-master/metadata.mfs.empty"))
    return next((place for place in places if place.exists()), None)


@dataclass
class MooseFS:
    mount: Path
    inside: list[str]
    servers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @contextmanager
    def slowed(self, server: str) -> Iterator[None]:
        """This chunk server stands still most of the time, as one that is overloaded or swaps."""
        process, over = self.servers[server], threading.Event()

        def stall() -> None:
            while not over.is_set():
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.05)

        thread = threading.Thread(target=stall)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@contextmanager
def moosefs(folder: Path, servers: int) -> Iterator[MooseFS]:
    holder = subprocess.Popen(["unshare", "-n", "sleep", "100000"])
    started: list[subprocess.Popen[bytes]] = []
    mount = folder / "mnt"
    mount.mkdir()
    time.sleep(0.5)
    inside = ["nsenter", "-t", str(holder.pid), "-n"]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def run(*command: str) -> None:
        done = subprocess.run([*inside, *command], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr or done.stdout}"

    def start(*command: str) -> subprocess.Popen[bytes]:
        with (folder / f"{len(started)}.log").open("wb") as log:
            process = subprocess.Popen([*inside, *command], env=environment, stdout=log, stderr=log)
        started.append(process)
        return process

    try:
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", f"{_ADDRESS}/24", "dev", "lo")
        start("mfsmaster", "-f", "-c", str(_master(folder)))
        time.sleep(2.0)
        made = MooseFS(mount, inside)
        for number in range(servers):
            config = _chunk_server(folder, number)
            made.servers[f"{_ADDRESS}:{_PORTS + 10 + number}"] = start("mfschunkserver", "-f", "-c", str(config))
        time.sleep(4.0)
        run("mfsmount", str(mount), "-H", _ADDRESS, "-P", str(_PORTS + 2), "-o", "mfscachemode=DIRECT")
        run("mfssetgoal", "-r", "1", str(mount))
        yield made
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False, capture_output=True)
        for process in reversed(started):
            process.kill()
            process.wait()
        holder.kill()
        holder.wait()


def _master(folder: Path) -> Path:
    data = folder / "master"
    data.mkdir()
    empty = _empty_metadata()
    assert empty is not None
    shutil.copy(empty, data / "metadata.mfs")
    (data / "exports").write_text("* / rw,alldirs,maproot=0\n* . rw\n")
    config = data / "mfsmaster.cfg"
    config.write_text(
        f"WORKING_USER = root\nWORKING_GROUP = root\nDATA_PATH = {data}\nEXPORTS_FILENAME = {data}/exports\n"
        f"LOCK_MEMORY = 0\nMATOML_LISTEN_PORT = {_PORTS}\nMATOCS_LISTEN_PORT = {_PORTS + 1}\n"
        f"MATOCL_LISTEN_PORT = {_PORTS + 2}\nMATOML_LISTEN_HOST = {_ADDRESS}\n"
    )
    return config


def _chunk_server(folder: Path, number: int) -> Path:
    data, disk = folder / f"chunk{number}", folder / f"disk{number}"
    data.mkdir()
    disk.mkdir()
    (data / "hdd").write_text(f"{disk}\n")
    config = data / "mfschunkserver.cfg"
    config.write_text(
        f"WORKING_USER = root\nWORKING_GROUP = root\nDATA_PATH = {data}\nHDD_CONF_FILENAME = {data}/hdd\n"
        f"LOCK_MEMORY = 0\nMASTER_HOST = {_ADDRESS}\nMASTER_PORT = {_PORTS + 1}\nBIND_HOST = {_ADDRESS}\n"
        f"CSSERV_LISTEN_HOST = {_ADDRESS}\nCSSERV_LISTEN_PORT = {_PORTS + 10 + number}\n"
        "HDD_LEAVE_SPACE_DEFAULT = 16MiB\n"
    )
    return config
