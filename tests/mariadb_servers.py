"""A MariaDB of one's own, on a socket only, for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_SECONDS = 30


def missing() -> str:
    """Why there can be none here; empty if there can."""
    return (
        "" if shutil.which("mariadbd", path=_search()) else "mariadbd is not installed (apt-get install mariadb-server)"
    )


def _search() -> str:
    return os.environ["PATH"] + ":/usr/sbin"


@contextmanager
def mariadb_server() -> Iterator[str]:
    """The path of its socket; root needs no password."""
    # A socket's path must stay short, and the server gives up root.
    with tempfile.TemporaryDirectory(prefix="mdb", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o777)
        environment = {**os.environ, "PATH": _search()}
        user = ["--user=nobody"] if os.geteuid() == 0 else []
        data, socket = place / "data", place / "s"
        data.mkdir()
        if user:
            shutil.chown(data, "nobody")
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", *user, f"--datadir={data}",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True, capture_output=True, env=environment,
        )  # fmt: skip
        process = subprocess.Popen(
            ["mariadbd", "--no-defaults", *user, f"--datadir={data}", f"--socket={socket}", "--skip-networking",
             f"--pid-file={place / 'pid'}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not socket.exists():
                assert time.monotonic() < deadline, f"mariadbd has no socket after {_START_SECONDS} s"
                time.sleep(0.1)
            yield str(socket)
        finally:
            process.terminate()
            process.wait(timeout=60)
