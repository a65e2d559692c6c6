"""The image is built without a network from deploy/Containerfile, and runs as its user on a lake that is mounted.

Its base is a Debian that is put together here: no registry is asked.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.lake.lake import open_lake

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
_START_SECONDS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    absent = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    if absent or os.geteuid() != 0:
        pytest.skip(f"apt-get install {' '.join(absent)}" if absent else "needs root")
    made = tmp_path_factory.mktemp("container")
    yield made
    shutil.rmtree(made)  # gigabytes


def buildah(folder: Path, *arguments: str | Path) -> list[str | Path]:
    return ["buildah", "--storage-driver=vfs", "--root", folder / "images", "--runroot", folder / "run", *arguments]


def printed(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def base(folder: Path) -> str:
    made = subprocess.run(["mmdebstrap", "--variant=minbase", "--include=python3,python3-venv", "bookworm",
                           folder / "base.tar"], capture_output=True, text=True)  # fmt: skip
    if made.returncode:
        pytest.skip(f"no Debian to be had: {made.stderr[-300:]}")
    container = printed(buildah(folder, "from", "scratch"))
    printed(buildah(folder, "add", container, folder / "base.tar", "/"))
    printed(buildah(folder, "commit", "--rm", container, "localhost/base"))
    return "localhost/base"


@pytest.fixture(scope="module")
def sources(folder: Path) -> Path:
    """This project with the wheels it needs, of the base's Python."""
    to = folder / "sources"
    shutil.copytree(ROOT / "src", to / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "deploy", to / "deploy")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".dockerignore"):
        shutil.copy(ROOT / name, to)
    (to / "secret").touch()
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, to], check=True)
    (wheel,) = folder.glob("ioweather-*.whl")
    systems = ("manylinux_2_28", "manylinux_2_24", "manylinux2014")
    subprocess.run([*pip, "download", "--only-binary=:all:", "--python-version=3.11", "-d", to / "wheelhouse",
                    *(f"--platform={system}_{platform.machine()}" for system in systems),
                    wheel, "hatchling"], check=True)  # fmt: skip
    return to


@pytest.fixture(scope="module")
def container(folder: Path, base: str, sources: Path) -> str:
    printed(buildah(folder, "build", "--isolation=chroot", f"--build-arg=BASE={base}",
                    "--build-arg=PIP_ARGS=--no-index --find-links wheelhouse", "-f", sources / "deploy/Containerfile",
                    "-t", "ioweather", sources))  # fmt: skip
    return printed(buildah(folder, "from", "localhost/ioweather"))


@pytest.fixture
def lake(folder: Path) -> Iterator[Path]:
    made = open_lake(folder / "lake", create=True)
    for metric in ("read_bytes", "write_bytes"):
        made.append("series", series_frame(np.full((60, 2), 1e9), metric=metric), source="lmt")
    for path in (made.root, *made.root.rglob("*")):
        os.chown(path, 10001, 10001)
    yield made.root
    shutil.rmtree(made.root)


def test_the_image(folder: Path, container: str):
    def shell(script: str) -> str:
        return printed(buildah(folder, "run", "--isolation=chroot", container, "--", "sh", "-c", script))

    assert shell("id -u; id -g").split() == ["10001", "10001"]
    assert shell("ioweather --version").startswith("ioweather, version")
    assert "all that it needs" in shell("ioweather doctor")
    assert shell("ls -d /src /secret /opt/ioweather/bin/pip* 2>/dev/null || true") == ""
    assert shell("touch /opt/ioweather/x 2>/dev/null || touch /x 2>/dev/null || echo closed") == "closed"


def test_the_dashboard_on_a_mounted_lake(folder: Path, container: str, lake: Path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(buildah(folder, "run", "--isolation=chroot", "-v", f"{lake}:/lake", container, "--",
                                      "ioweather", "serve", "--port", str(port)))  # fmt: skip
    try:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
                    assert b"ok" in answer.read()
                break
            except OSError:
                assert time.monotonic() < end
                assert server.poll() is None
                time.sleep(0.3)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/exhibits/car11.fig7?format=png") as answer:
            assert answer.read().startswith(b"\x89PNG")
    finally:
        server.terminate()
        server.wait(20)
    assert {path.stat().st_uid for path in lake.rglob("*")} == {10001}
