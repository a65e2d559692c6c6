"""systemd as the first process of a machine of its own, which sees this one's files and whose writes are gone with it.

Its processes, mounts, control groups, network and names are its own. Needs root, unshare(1) and overlayfs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SYSTEMD = Path("/lib/systemd/systemd")
_START_SECONDS = 40
_GROUP = f"machine-{os.getpid()}"
_ROOT = Path(__file__).resolve().parents[1]
# The group is made before its namespace, so that systemd takes it for the root of the hierarchy.
_OUTSIDE = f"""set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/groups" "$1/upper" "$1/work" "$1/root"
mount -t cgroup2 cgroup2 "$1/groups"
mkdir "$1/groups/{_GROUP}"
echo $$ >"$1/groups/{_GROUP}/cgroup.procs"
exec unshare --pid --fork --kill-child --mount --uts --ipc --net --cgroup sh -c "$2" inside "$1"
"""
# A virtual environment may lean on another.
_PACKAGES = [path for path in sys.path if path.endswith("/site-packages")]
_BOUND = "\n".join(f"mkdir opt/packages{n}; mount --bind {path} opt/packages{n}" for n, path in enumerate(_PACKAGES))
_PYTHONPATH = ":".join(f"/opt/packages{n}" for n in range(len(_PACKAGES)))
# Its /etc names no units of this machine. The kernel's settings and devices are this machine's: it may not change them.
_INSIDE = f"""set -e
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for empty in dev run tmp srv opt backup scratch etc/systemd/system; do
    mkdir -p "$empty"
    mount -t tmpfs tmpfs "$empty"
done
mkdir dev/shm dev/pts
mount -t devpts devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /dev/null etc/systemd/system/systemd-modules-load.service
for device in null zero full random urandom tty; do touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
chmod 1777 tmp
mkdir -p opt/python opt/source opt/ioweather/bin
mount --bind {sys.base_prefix} opt/python
{_BOUND}
mount --bind {_ROOT / "src"} opt/source
cat >opt/ioweather/bin/python <<'END'
#!/bin/sh
export LD_LIBRARY_PATH=/opt/python/lib PYTHONPATH=/opt/source:{_PYTHONPATH}
exec /opt/python/bin/python{sys.version_info[0]}.{sys.version_info[1]} "$@"
END
printf '#!/bin/sh\nexec /opt/ioweather/bin/python -m ioweather "$@"\n' >opt/ioweather/bin/ioweather
chmod 755 opt/ioweather/bin/*
exec chroot . env -i container=other PATH="$PATH" {SYSTEMD} --unit=basic.target --log-target=journal
"""

_AFTER = f"""mount -t cgroup2 cgroup2 "$1" || exit 0
find "$1" -path "$1/{_GROUP}*" -depth -type d -exec rmdir {{}} + 2>/dev/null
"""


def missing() -> str:
    """Why there can be no such machine here; empty if there can."""
    absent = [name for name in ("unshare", "nsenter", "journalctl", "systemd-sysusers") if shutil.which(name) is None]
    if absent or not SYSTEMD.exists():
        return f"not installed: {', '.join(absent) or 'systemd'}"
    return "" if os.geteuid() == 0 else "needs root"


class Machine:
    """`root`: its files, from here."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.root = Path(f"/proc/{first}/root")

    def __call__(self, script: str) -> str:
        """What a shell there printed; CalledProcessError if it failed."""
        done = subprocess.run(["nsenter", "--all", f"--target={self._first}", "--root", "--wd", "sh", "-ec", script],
                              capture_output=True, text=True, timeout=60, start_new_session=True)  # fmt: skip
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, script, done.stdout, done.stderr)
        return done.stdout.strip()

    def wait(self, script: str, seconds: float = 120) -> None:
        """Until it succeeds; the last CalledProcessError if that takes too long."""
        end = time.monotonic() + seconds
        while True:
            try:
                self(script)
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)
            else:
                return


@contextmanager
def systemd_machine(folder: Path) -> Iterator[Machine]:
    """A machine that has started, made in `folder`. RuntimeError, with its words, if it does not."""
    place = folder / "machine"
    place.mkdir()
    with (folder / "machine.log").open("w+") as log:
        outside = subprocess.Popen(["unshare", "--mount", "sh", "-c", _OUTSIDE, "outside", str(place), _INSIDE],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        try:
            machine = _started(outside)
            if machine is None:
                log.seek(0)
                raise RuntimeError(f"systemd did not start: {log.read()[-800:]}")
            yield machine
        finally:
            outside.kill()
            outside.wait()
            for _ in range(50):  # all its processes are killed, but not yet gone
                if subprocess.run(["unshare", "--mount", "sh", "-c", _AFTER, "after", str(place)]).returncode == 0:
                    break
                time.sleep(0.1)


def _started(outside: subprocess.Popen[bytes]) -> Machine | None:
    children = Path(f"/proc/{outside.pid}/task/{outside.pid}/children")
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and outside.poll() is None:
        time.sleep(0.2)
        with suppress(OSError, ValueError, subprocess.SubprocessError):  # it changes while it is looked at
            first = int(children.read_text())
            if Path(f"/proc/{first}/comm").read_text() == "systemd\n":
                machine = Machine(first)
                machine("systemctl is-active basic.target")
                return machine
    return None
