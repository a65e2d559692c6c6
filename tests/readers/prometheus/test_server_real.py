"""A real Prometheus that scraped for a while, over restarts of the exporter: the lake has what the counters grew by."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

import prometheus_servers
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.core.units import MINUTE_NS, NS
from ioweather.readers.prometheus.server import Poll, PrometheusServer

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """For a bit more than two minutes, with the exporter restarted twice: once alone, once with what it counts."""
    if why := prometheus_servers.missing():
        pytest.skip(why)
    exporter = prometheus_servers.Exporter()
    exporter.start()
    folder = tmp_path_factory.mktemp("prometheus")
    started = time.time_ns()
    with prometheus_servers.prometheus_server(folder, exporter.port, options=("--query.max-samples=900",)) as address:
        prometheus_servers.wait_until(lambda: len(exporter.shown) > 20, 60)
        exporter.restart(counters=False)
        prometheus_servers.wait_until(lambda: len(exporter.shown) > 45, 60)
        exporter.restart(counters=True)
        prometheus_servers.wait_until(lambda: len(exporter.shown) > 80, 90)
        exporter.stop()
        ended = time.time_ns()
        yield address, exporter, started // MINUTE_NS * MINUTE_NS, ended


def rows_of(address, since_ns, until_ns, **context):
    poll = Poll(PrometheusServer.from_url(address), ReadContext(**context))
    found: dict[str, list[dict]] = {"series": [], "job_operations": []}
    pieces = 0
    for _, frames in poll.pieces(since_ns, until_ns):
        pieces += 1
        for table, frame in frames:
            found[table] += frame.records()
    return found, pieces


def total(rows, metric, component):
    return sum(row["value"] for row in rows if (row["metric"], row["component"]) == (metric, component))


@pytest.mark.parametrize("raw", [True, False])
def test_counters_equal_the_truth(scraped, raw):
    """Every sample a row: all of it. By minutes: up to the first sample of the last minute that was scraped."""
    address, exporter, since, _ = scraped
    found, pieces = rows_of(address, since, since + 10 * MINUTE_NS, keep_raw=raw)
    assert pieces > 1, "the server allows 900 samples at a time"
    truth = {
        metric: exporter.growth(f'lustre_{name}_bytes_total{{component="ost",target="fs1-OST0001"}}')
        for name, metric in (("read", "read_bytes"), ("write", "write_bytes"))
    }
    for metric, grown in truth.items():
        rows = [r for r in found["series"] if (r["metric"], r["component"]) == (metric, "fs1-OST0001")]
        rows.sort(key=lambda row: row["start_ns"])
        assert all(a["start_ns"] + a["interval_ns"] == b["start_ns"] for a, b in pairwise(rows))
        if raw:
            assert sum(row["quality"] for row in rows) == 2, "one of them has the restart"
            assert sum(row["value"] for row in rows) == grown
        else:
            assert len(rows) in (1, 2)
            assert 0 < sum(row["value"] for row in rows) < grown
    if raw:
        grown = exporter.growth('lustre_stats_total{component="mdt",operation="migrate",target="fs1-MDT0000"}')
        grown += exporter.growth('lustre_stats_total{component="mdt",operation="ping",target="fs1-MDT0000"}')
        assert total(found["series"], "other_ops", "fs1-MDT0000") == grown
        labels = '{component="ost",jobid="4711",target="fs1-OST0000"}'
        assert sum(r["bytes"] for r in found["job_operations"]) == exporter.growth(
            f"lustre_job_write_bytes_total{labels}"
        )
        assert sum(r["count"] for r in found["job_operations"]) == exporter.growth(
            f"lustre_job_write_samples_total{labels}"
        )
    assert total(found["series"], "capacity_bytes", "fs1-OST0001") % (1001 * 1024) == 0


def test_polls_that_adjoin_give_the_rows_of_one(scraped):
    address, _, since, _ = scraped
    whole, _ = rows_of(address, since, since + 10 * MINUTE_NS)
    first, _ = rows_of(address, since, since + MINUTE_NS)
    second, _ = rows_of(address, since + MINUTE_NS, since + 10 * MINUTE_NS)
    for table in ("series", "job_operations"):
        counted = [row for row in first[table] + second[table] if row.get("metric") != "capacity_bytes"]
        assert sorted(map(str, counted)) == sorted(str(r) for r in whole[table] if r.get("metric") != "capacity_bytes")


def test_by_the_command_again_and_again(scraped, tmp_path):
    from click.testing import CliRunner

    from ioweather.lake.lake import open_lake
    from ioweather.ui.cli.main import cli

    address, exporter, _, ended = scraped
    settled = -(-ended // MINUTE_NS) * MINUTE_NS + 31 * NS
    prometheus_servers.wait_until(lambda: time.time_ns() > settled, 100)
    command = ["ingest", "--source", "prometheus", address, "--raw", "--lake", str(tmp_path / "lake"), "--json"]
    for added in (True, False):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
        assert ('"series": ' in done.output) is added
    with open_lake(tmp_path / "lake").snapshot() as snapshot:
        sql = snapshot.rows("series", {"metric": "read_bytes", "component": "fs1-OST0000", "source": "prometheus"})
        found = snapshot.bare.sql(f"SELECT sum(value), max(quality) FROM ({sql})").fetchall()
    assert found == [(exporter.growth('lustre_read_bytes_total{component="ost",target="fs1-OST0000"}'), 2)]


def test_what_is_no_server_is_said(scraped):
    address, exporter, *_ = scraped
    with pytest.raises(SourceError, match="Cannot reach"):
        PrometheusServer.from_url(f"http://127.0.0.1:{exporter.port}").now_ns()
    with pytest.raises(SourceError, match="returned status 404"):
        PrometheusServer.from_url(f"{address}/nowhere").now_ns()
    assert PrometheusServer.from_url("http://u:p@x:9090?match=a%3D%22b%22").where == "http://x:9090?match=a%3D%22b%22"
