"""Agents on other hosts tell how they are: over HTTP on loopback, and as pages, `now` and metrics show them."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from asking import weather_now
from ioweather.agent.delivery import Server, Shipment, Shipper, push
from ioweather.agent.exporter import render
from ioweather.agent.spool import Spool
from ioweather.agent.status import (
    InFlight,
    OperationStatus,
    Outcome,
    Recent,
    SourceStatus,
    SpoolStatus,
    Status,
    TargetStatus,
    keep_status,
    read_status,
    status_bytes,
)
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, now_ns
from ioweather.ui.doctor import examine
from ioweather.ui.web import pushes as receive
from ioweather.ui.web.app import create_app
from ioweather.ui.web.tokens import revoke_token
from shipments import outcome

BINARY = {"content-type": "application/octet-stream"}
AGENTS = "Agents on other hosts (time since last report)"
HEADER = '{"ioweather_spool": 1, "host": "n1"}\n'
EVENT = '{"table": "events", "event_id": "e1", "kind": "gap", "start_ns": 1, "label": "x"}\n'


@pytest.fixture(autouse=True)
def no_agent_of_mine(tmp_path, monkeypatch):
    monkeypatch.setenv("IOWEATHER_SPOOL", str(tmp_path / "no spool"))


@pytest.fixture
def client(root):
    with TestClient(create_app(root, hosts=["testserver"]), raise_server_exceptions=False) as made:
        yield made


def told(host="n1", slowdown=1.0, **changes) -> Status:
    """What an agent with one probe and block devices tells, which ships every five minutes."""
    moment = now_ns()
    read = OperationStatus(
        "read", 1 << 20, "nocache", ok_count=100, last=Outcome(moment - 2 * NS, "ok"), expected_count=100,
        expected_ns=10_000_000, recent=Recent(60 * NS, 60, round(10_000_000 * slowdown)), bucket_counts=(0, 100),
    )  # fmt: skip
    target = TargetStatus("/scratch/p", "mount:/scratch", "waiting", NS, operations=(read,))
    block = SourceStatus("block", "waiting", 10 * NS, last_start_ns=moment - 7 * NS, last_ok=True)
    spool = SpoolStatus("/spool", files=2, bytes=5000, limit_bytes=1 << 30)
    made = Status(host, 7, "b", f"run of {host}", "running", moment - HOUR_NS, moment, NS, spool, (target,), (block,),
                  software_version="1.2", ship_period_ns=5 * MINUTE_NS)  # fmt: skip
    return replace(made, **changes)


def texts(root) -> list[str]:
    answer, _ = weather_now([], str(root))
    return [finding.text for finding in answer.findings]


def test_a_status_is_told_and_takes_the_place_of_the_one_before(server, root, token):
    for pid in (7, 8):
        assert push(server, token, [], status=status_bytes(told(pid=pid))).message == ""
    kept = read_status((root / "inbox") / "n1")
    assert kept.pid == 8
    assert abs(kept.received_ns - now_ns()) < 60 * NS
    assert kept.targets[0].operations[0].bucket_counts[1] == 100
    answer, wrong = weather_now([], str(root))
    assert (answer.headline, wrong) == ("Storage is as fast as usual.", False)
    assert [group.title for group in answer.facts] == [AGENTS]
    (fact,) = answer.facts[0].facts
    assert fact.label == "n1"
    assert fact.note == "running, 1.2"
    assert answer.findings == ()


def test_who_may_not_send_may_not_tell(server, root, token):
    data = status_bytes(told())
    assert push(server, "wrong", [], status=data).message.startswith("401")
    assert push(server, token, [], status=status_bytes(told("n2"))).message.startswith("403: The token n1 is not for")
    revoke_token(root, "n1")
    assert push(server, token, [], status=data).message.startswith("401")
    assert not (root / "inbox").exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"host": "n1"}', b"[" * 100_000, b"\xff\xfe",
     status_bytes(told()).replace(b'"pid":7', b'"pid":"7"'), status_bytes(told()).replace(b'"pid":7', b'"pid":1e400'),
     status_bytes(told()).replace(b'"pid":7', b'"pid":' + b"9" * 30), status_bytes(told(targets=({"target": 5},))),
     status_bytes(told(version=2)), status_bytes(told(state="dancing")), status_bytes(told(written_ns=None))],
)  # fmt: skip
def test_what_is_no_status_is_refused_and_nothing_is_kept(client, root, token, data):
    response = client.post("/api/v1/spool/n1/status", content=data, headers={"authorization": f"Bearer {token}"})
    assert response.status_code == 422, response.text
    assert str(root) not in response.text
    assert not (root / "inbox").exists()


def test_a_status_of_another_host_or_without_end_is_refused(client, root, token, monkeypatch):
    headers = {**BINARY, "authorization": f"Bearer {token}"}
    assert client.post("/api/v1/spool/n1/status", content=status_bytes(told("n2")), headers=headers).status_code == 403
    monkeypatch.setattr(receive, "STATUS_LIMIT_BYTES", 100)
    assert client.post("/api/v1/spool/n1/status", content=status_bytes(told()), headers=headers).status_code == 400


def test_silent_and_stopped_agents_are_said_and_give_no_old_numbers(root):
    moment = now_ns()
    keep_status(root, told("n1"), moment - 14 * MINUTE_NS)  # within three of its periods
    keep_status(root, told("n2", slowdown=9), moment - 16 * MINUTE_NS)
    keep_status(root, told("n3", slowdown=9, state="stopped"), moment - 2 * HOUR_NS)
    keep_status(root, told("n4"), moment - 8 * DAY_NS)  # no more expected
    for host in ("n1", "n2", "n3", "n4"):
        came = read_status((root / "inbox") / host).received_ns
        os.utime((root / "inbox") / host, ns=(came, came))
    answer, wrong = weather_now([], str(root), at_ns=moment)
    assert (answer.headline, wrong) == ("Storage is as fast as usual.", False)
    assert [f.label for f in answer.facts[-1].facts] == ["n1", "n2", "n3"]
    assert [f.text for f in answer.findings] == [
        "The agent on n2 has been silent for 16 min.",
        "The agent on n3 stopped 2 h ago.",
    ]
    checks = [check.found for check in examine(str(root)) if check.name in ("agent", "agents")]
    assert any(re.fullmatch(r"silent for 16.* min on n2", found) for found in checks)
    assert "1 of 3 agents on other hosts are running" in checks


def test_troubles_are_told_in_the_words_of_the_journal(root):
    failed = SourceStatus("slurm", "failed", NS, message="no sacct")
    spool = SpoolStatus("/s", dropped_rows=1200, refused_files=1, last_ship_ok=False, message="503: the lake is full")
    keep_status(root, told(spool=spool, sources=(failed,)), now_ns())
    assert texts(root) == [
        "n1: slurm: failed: no sacct",
        "n1: delivery failed: 503: the lake is full",
        "n1: the lake refused 1 files: 503: the lake is full",
        "n1: 1,200 rows dropped: 503: the lake is full",
    ]
    problems = [check.found for check in examine(str(root)) if check.state == "problem" and check.name == "agent"]
    assert "n1: 1,200 rows dropped: 503: the lake is full" in problems


def test_a_hang_elsewhere_is_as_old_as_it_was_when_it_was_told(root):
    moment = now_ns()
    flight = InFlight("write", 1 << 20, moment, 40 * NS)
    target = replace(told().targets[0], state="hung", in_flight=flight)
    keep_status(root, told(targets=(target,)), moment - 3 * MINUTE_NS)
    answer, wrong = weather_now([], str(root), at_ns=moment)
    assert wrong
    assert (
        answer.headline == "Storage hangs: a write on /scratch has not returned for 40 s (reported by n1, 3 min ago)."
    )
    assert len(answer.findings) == 1


def test_slowness_elsewhere_names_the_host_and_a_wrong_clock_does_no_harm(root):
    late = told(slowdown=4, written_ns=now_ns() - HOUR_NS)
    operation = replace(late.targets[0].operations[0], last=Outcome(late.written_ns - 2 * NS, "ok"))
    keep_status(root, replace(late, targets=(replace(late.targets[0], operations=(operation,)),)), now_ns())
    answer, wrong = weather_now([], str(root))
    assert wrong
    assert answer.headline == "read on /scratch from n1 takes 4.0 times as long as usual."
    (row,) = answer.exhibits[0].tables[0].rows
    assert row[-1] == pytest.approx(2.0, abs=1.0)  # seconds since the last result, not an hour
    assert any("behind this host" in check.found for check in examine(str(root)))


def test_of_many_paths_the_slowest_are_listed(root):
    for number in range(20):
        keep_status(root, told(f"n{number:02d}", slowdown=5.0 if number == 17 else 1.0), now_ns())
    answer, _ = weather_now([], str(root))
    rows = answer.exhibits[0].tables[0].rows
    assert rows[0][:2] == ("/scratch from n17", "/scratch/p")
    assert len(rows) == 20


def test_the_pages_and_the_metrics_show_them(client, root):
    keep_status(root, told("n1", spool=SpoolStatus("/s", dropped_rows=5)), now_ns())
    keep_status(root, told("n<2>"), now_ns() - HOUR_NS)
    came = now_ns() - HOUR_NS
    os.utime((root / "inbox") / "n<2>", ns=(came, came))
    page = client.get("/fragments/agents").text
    assert "probe /scratch/p" in page
    assert "silent" in page
    assert "n&lt;2&gt;" in page
    assert "Spool of n1 (1.2)" in page
    now = client.get("/fragments/now").text
    assert "Agents on other hosts" in now
    assert "has been silent for" in now
    assert "5 rows dropped" in now
    text = render(root / "no spool", pushed_to=root).decode()
    assert 'ioweather_remote_up{host="n1"} 1.0' in text
    assert 'ioweather_remote_up{host="n<2>"} 0.0' in text
    assert 'ioweather_remote_dropped_rows_total{host="n1"} 5.0' in text
    assert 'ioweather_remote_troubles{host="n1"} 1.0' in text
    assert "ioweather_remote" not in render(root / "no spool").decode()


def test_a_full_disk_is_told_from_memory(server, root, token_file, tmp_path, monkeypatch):
    """Neither rows nor status.json can be written, and the server hears of it."""
    spool = Spool(tmp_path / "spool", "n1", "r")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ioweather.agent.spool.write_all", full)
    spool.add(EVENT.strip())
    spool.flush(now_ns(), last=True)
    state = SpoolStatus("/s", dropped_rows=spool.dropped_rows, message=spool.message)
    shipper = Shipper(tmp_path, server=Server(server, token_file))
    shipper.start(spool.closed_files(), 0, status_bytes(told(spool=state)))
    assert outcome(shipper) == Shipment(True, 0, 0, "")
    assert texts(root) == ["n1: 1 rows dropped: 1 rows not written: No space left on device"]
