"""Serving the metrics: over HTTP for Prometheus, or as a file for node_exporter's textfile collector."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from ioweather.agent.exporter import StatusCollector, render
from ioweather.core.errors import UsageError

DEFAULT_LISTEN = "127.0.0.1:9754"


def parse_listen(text: str) -> tuple[str, int]:
    """'127.0.0.1:9754', '[::1]:9754' or ':9754' (this machine only: to be seen from outside, name an address)."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(
            f"{text!r} is not an address to listen at.", hint=f"Expected HOST:PORT, such as {DEFAULT_LISTEN}."
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def serve(
    directory: Path,
    host: str,
    port: int,
    until: threading.Event,
    *,
    lake: Path | None = None,
    others: Sequence[Collector] = (),
) -> None:
    """Answer scrapes until told to end."""
    registry = CollectorRegistry()
    for collector in (StatusCollector(directory, pushed_to=lake), *others):
        registry.register(collector)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise UsageError(
            f"Cannot listen at {host}:{port}: {error.strerror}.", hint="Choose another with --port."
        ) from None
    try:
        until.wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_textfile(
    directory: Path,
    file: Path,
    *,
    lake: Path | None = None,
    others: Sequence[Collector] = (),
) -> None:
    """Replaced at once: node_exporter never reads half of it."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        draft.write_bytes(render(directory, pushed_to=lake, others=others))
        draft.chmod(0o644)  # read by another user
        draft.replace(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from None


def write_textfile_every(
    directory: Path,
    file: Path,
    seconds: float,
    until: threading.Event,
    *,
    lake: Path | None = None,
    others: Sequence[Collector] = (),
) -> None:
    while True:
        write_textfile(directory, file, lake=lake, others=others)
        if until.wait(seconds):
            return
