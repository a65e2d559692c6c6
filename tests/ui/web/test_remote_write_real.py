"""A real Prometheus pushes to our server: the lake holds the rows that reading the same Prometheus gives."""

from __future__ import annotations

import time

import pytest

import prometheus_servers
from ioweather.core.contracts import ReadContext
from ioweather.core.units import MINUTE_NS
from ioweather.lake.lake import open_lake
from ioweather.lake.tokens import create_token
from ioweather.readers.prometheus.server import Poll, PrometheusServer
from ioweather.ui.web.app import bind, create_app, running

pytest.importorskip("cramjam")
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.real
COLUMNS = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")


def test_equal_rows(tmp_path):
    if why := prometheus_servers.missing():
        pytest.skip(why)
    lake = open_lake(tmp_path / "lake", create=True)
    token = create_token(lake.root, "prom", "*")
    exporter = prometheus_servers.Exporter()
    exporter.start()
    started = time.time_ns() // MINUTE_NS * MINUTE_NS
    app = create_app(lake.root)
    with running(app, bind("127.0.0.1", 0)) as where:
        url = f"{where.rstrip('/')}/api/v1/remote-write"
        extra = f"remote_write:\n  - url: {url}\n    authorization: {{credentials: {token}}}\n"
        with prometheus_servers.prometheus_server(tmp_path, exporter.port, extra) as address:
            prometheus_servers.wait_until(lambda: len(exporter.shown) > 40, 90)
            exporter.restart(counters=True)
            prometheus_servers.wait_until(lambda: rows_in(lake, "read_bytes"), 240)
            # All samples of the minutes that the lake has are older than the newest minute.
            poll = Poll(PrometheusServer.from_url(address), ReadContext())
            frames = [
                piece for _, found in poll.pieces(started, time.time_ns() // MINUTE_NS * MINUTE_NS) for piece in found
            ]
    pulled = {
        tuple(row[name] for name in COLUMNS) for table, frame in frames if table == "series" for row in frame.records()
    }
    with lake.snapshot() as snapshot:
        listed = ", ".join(COLUMNS)
        pushed = set(snapshot.bare.sql(f"SELECT {listed} FROM ({snapshot.rows('series')})").fetchall())
        jobs = snapshot.bare.sql(f"SELECT sum(bytes) FROM ({snapshot.rows('job_operations')})").fetchall()
    assert pushed
    assert pushed <= pulled, sorted(pushed - pulled)[:3]
    assert any(row[-1] == 2 for row in pushed), "the restart is among them"
    assert jobs[0][0] % 8192 == 0
    exporter.stop()


def rows_in(lake, metric: str) -> bool:
    """Whether the row with the restart is there, and rows of jobs."""
    with lake.snapshot() as snapshot:
        if not all(snapshot.pinned[table].uris for table in ("series", "job_operations")):  # one after the other
            return False
        sql = snapshot.rows("series", {"metric": metric})
        counted = snapshot.bare.sql(f"SELECT count(*) FROM ({sql}) WHERE quality = 2").fetchall()
    return bool(counted[0][0])
