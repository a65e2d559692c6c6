"""A real GlusterFS: one volume of some bricks in a network namespace of their own, mounted here.

Each brick is an ext4 on a loop device. `slowed` limits what one brick may write to the disk below its loop device, so
that requests wait in the queue of that device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_PROGRAMS = ("glusterd", "gluster", "glusterfs", "losetup", "mkfs.ext4", "unshare", "nsenter", "ip")
_ADDRESS = "10.78.0.1"  # a brick may not be at the loopback address
_GROUPS = Path("/sys/fs/cgroup/blkio")
_BRICK_BYTES = 256 * 2**20


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
    if not (_GROUPS / "blkio.throttle.write_bps_device").exists():
        return "no blkio control groups (cgroup v1)"
    return None


@dataclass
class GlusterFS:
    mount: Path
    devices: list[str] = field(default_factory=list)  # loop devices of the bricks
    daemons: list[int] = field(default_factory=list)  # processes of the bricks
    disk: str = ""  # major:minor of the disk below

    @contextmanager
    def limited(self, brick: int, bytes_per_s: int) -> Iterator[None]:
        """This brick writes no more than this to its disk."""
        group = _GROUPS / f"ioweather-{os.getpid()}-{brick}"
        group.mkdir()
        try:
            (group / "blkio.throttle.write_bps_device").write_text(f"{self.disk} {bytes_per_s}")
            self._move(brick, group)
            yield
        finally:
            self._move(brick, _GROUPS)
            group.rmdir()

    def _move(self, brick: int, group: Path) -> None:
        for thread in Path(f"/proc/{self.daemons[brick]}/task").iterdir():
            with suppress(OSError):  # it has ended
                (group / "tasks").write_text(thread.name)

    def counters(self, moment_ns: int) -> str:
        """Lines of /proc/diskstats of the bricks, as a log of them: brick0, brick1, ..."""
        rows = {line.split()[2]: line.split() for line in Path("/proc/diskstats").read_text().splitlines()}
        found = ((number, rows[device.rsplit("/", 1)[-1]]) for number, device in enumerate(self.devices))
        return "".join(f"{moment_ns} {' '.join([*row[:2], f'brick{number}', *row[3:]])}\n" for number, row in found)


@contextmanager
def glusterfs(folder: Path, bricks: int) -> Iterator[GlusterFS]:
    """Start the servers and mount the volume; everything is removed at the end."""
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def run(*command: object, check: bool = True) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{words}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    with ExitStack() as until:
        made = GlusterFS(folder / "mnt")
        made.mount.mkdir()
        holder = subprocess.Popen(["unshare", "-n", "sleep", "100000"])
        until.callback(holder.wait)
        until.callback(holder.kill)
        time.sleep(0.5)
        inside = ["nsenter", "-t", holder.pid, "-n"]
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", f"{_ADDRESS}/24", "dev", "lo")
        for number in range(bricks):
            image, place = folder / f"disk{number}", folder / f"b{number}"
            place.mkdir()
            run("fallocate", "-l", _BRICK_BYTES, image)
            run("mkfs.ext4", "-q", "-O", "^has_journal", image)
            device = run("losetup", "--direct-io=on", "-f", "--show", image)
            until.callback(run, "losetup", "-d", device, check=False)
            run("mount", device, place)
            until.callback(run, "umount", "-l", place, check=False)
            (place / "brick").mkdir()
            made.devices.append(device)
        under = folder.stat().st_dev
        made.disk = f"{os.major(under)}:{os.minor(under)}"
        state, socket = folder / "glusterd", folder / "glusterd.socket"
        state.mkdir()
        volume_file = folder / "glusterd.vol"
        volume_file.write_text(
            f"volume management\n  type mgmt/glusterd\n  option working-directory {state}\n"
            f"  option run-directory {state}\n  option glusterd-sockfile {socket}\n  option transport-type socket\n"
            f"  option transport.socket.bind-address {_ADDRESS}\n  option transport.address-family inet\nend-volume\n"
        )
        daemon = subprocess.Popen(
            [
                str(word)
                for word in (*inside, "glusterd", "-N", "-f", volume_file, "-p", state / "pid", "-l", state / "log")
            ],
            env=environment,
        )
        until.callback(daemon.wait)
        until.callback(daemon.kill)
        _await(socket.exists)
        tell = [*inside, "gluster", "--mode=script", f"--glusterd-sock={socket}"]
        places = [f"{_ADDRESS}:{folder}/b{number}/brick" for number in range(bricks)]
        _await(lambda: "Number of Peers" in run(*tell, "peer", "status", check=False))
        run(*tell, "volume", "create", "gv", *places, "force")
        for option in ("storage.health-check-interval", "performance.flush-behind", "performance.io-cache"):
            run(*tell, "volume", "set", "gv", option, 0 if option.startswith("storage") else "off")
        run(*tell, "volume", "start", "gv")
        until.callback(run, *tell, "volume", "stop", "gv", "force", check=False)
        run(
            *inside,
            "glusterfs",
            f"--volfile-server={_ADDRESS}",
            "--volfile-id=gv",
            f"--log-file={folder}/mount.log",
            made.mount,
        )
        until.callback(run, "umount", "-l", made.mount, check=False)
        made.daemons = [int(next(state.rglob(f"*b{number}-brick.pid")).read_text()) for number in range(bricks)]
        yield made


def _await(is_there: object, seconds: float = 60.0) -> None:
    """Wait until something is there."""
    began = time.monotonic()
    while not is_there():  # type: ignore[operator]
        assert time.monotonic() - began < seconds, "it did not start in time"
        time.sleep(0.5)
