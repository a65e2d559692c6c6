"""An S3-compatible server on this machine (moto), and lakes in it."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from prometheus_servers import free_port

BUCKET = "weather"
# One thread: moto checks and writes in two steps, which only then is a conditional put as stores have it.
_SERVER = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


@contextmanager
def object_store(environment: MutableMapping[str, str]) -> Iterator[str]:
    """The address of a bucket, with the environment variables of its client set."""
    pytest.importorskip("moto")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    names = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    names |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    before = {name: environment.get(name) for name in names}
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(port)], stderr=subprocess.DEVNULL)
    try:
        _make_bucket(f"{endpoint}/{BUCKET}")
        environment.update(names)
        yield f"s3://{BUCKET}"
    finally:
        server.kill()
        server.wait()
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value


def _make_bucket(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=30).close()
        except (urllib.error.URLError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def place_in_store(root: Path, bucket: str) -> Path:
    """Make the directory the working directory of a new lake in the bucket."""
    root.mkdir(parents=True)
    (root / ".store").write_text(f"{bucket}/{uuid.uuid4()}")
    return root
