"""Remote write: messages that are good, repeated, cut, huge and hostile; rows over deaths of the writer."""

from __future__ import annotations

import json
import struct
import time

import pytest
from fastapi.testclient import TestClient

from ioweather.core.errors import LakeError
from ioweather.core.units import MINUTE_NS, NS
from ioweather.ingestion import queue
from ioweather.ingestion.drain import drain, run_pass
from ioweather.lake.lake import open_lake
from ioweather.lake.tokens import create_token
from ioweather.ui.web.app import create_app

cramjam = pytest.importorskip("cramjam")
pytest.importorskip("google.protobuf")
T0 = (time.time_ns() - 3600 * NS) // MINUTE_NS * 60 + 60  # a whole minute, about an hour ago


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def part(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def message(series) -> bytes:
    """A WriteRequest, written from the wire format alone; {(name, labels...): [(seconds, value)]}."""
    body = b""
    for labels, samples in series.items():
        name, *rest = labels
        inner = b"".join(
            part(1, part(1, key.encode()) + part(2, value.encode())) for key, value in [("__name__", name), *rest]
        )
        for seconds, value in samples:
            inner += part(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(int(seconds * 1000)))
        body += part(1, inner)
    return body


def packed(series) -> bytes:
    return bytes(cramjam.snappy.compress_raw(message(series)))


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


@pytest.fixture
def send(lake):
    token = create_token(lake.root, "prom", "*")
    client = TestClient(create_app(lake.root), base_url="http://localhost")

    def push(body: bytes, bearer: str = token):
        return client.post("/api/v1/remote-write", content=body, headers={"Authorization": f"Bearer {bearer}"})

    return push


OST = (
    "lustre_read_bytes_total",
    ("component", "ost"),
    ("instance", "oss1:9169"),
    ("job", "l"),
    ("target", "f-OST0000"),
)


def mdt(operation: str):
    return ("lustre_stats_total", ("component", "mdt"), ("operation", operation), ("target", "f-MDT0000"))


def rows(lake, metric="read_bytes"):
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["series"].uris:
            return []
        sql = snapshot.rows("series", {"metric": metric})
        found = snapshot.bare.sql(
            f"SELECT start_ns, interval_ns, value, quality, component, source FROM ({sql}) ORDER BY start_ns"
        ).fetchall()
    return [((start // NS) - T0, length // NS, *rest) for start, length, *rest in found]


def test_pushes_become_rows_of_minutes(lake, send):
    for i in range(0, 300, 15):
        assert send(packed({OST: [(T0 + i, 10.0 * i)]})).status_code == 204
    assert drain(lake) == 20
    expected = [(60 * i, 60, 600.0, 0, "f-OST0000", "prometheus") for i in range(3)]
    assert rows(lake) == expected, "the last minute may still grow"


def test_restart_repetition_and_other_orders(lake, send):
    """Counters fall; what is sent twice counts once; a scrape comes in several pushes, in any order."""
    values = {0: 5, 60: 25, 120: 7, 180: 8, 240: 8, 300: 8}
    for seconds, value in values.items():
        pushes = [
            {OST: [(T0 + seconds, value)]},
            {mdt("migrate"): [(T0 + seconds, seconds)]},
            {mdt("ping"): [(T0 + seconds, 2 * seconds)]},
        ]
        for series in (pushes, reversed(pushes))[seconds % 120 > 0]:
            send(packed(series))
            send(packed(series))
        drain(lake)
    assert [row[2:4] for row in rows(lake)] == [(20.0, 0), (7.0, 2), (1.0, 0), (0.0, 0)]
    assert [row[2] for row in rows(lake, "other_ops")] == [180.0] * 4


def test_a_writer_that_dies_gives_the_same_rows(lake, send, monkeypatch):
    """After the rows, and after the state: the next one completes it."""
    for seconds in (0, 60, 120, 180, 240):
        send(packed({OST: [(T0 + seconds, seconds)]}))
    for place in ("write_whole", None):
        with monkeypatch.context() as broken:
            if place:
                broken.setattr(
                    f"ioweather.ingestion.drain.{place}", lambda *_: (_ for _ in ()).throw(OSError("killed"))
                )
            else:
                broken.setattr(type(lake), "record", lambda *_: (_ for _ in ()).throw(OSError("killed")))
            with pytest.raises(OSError, match="killed"):
                drain(lake)
    assert drain(lake) == 5
    assert [row[:3] for row in rows(lake)] == [(0, 60, 60.0), (60, 60, 60.0), (120, 60, 60.0)]
    send(packed({OST: [(T0 + 300, 400.0)]}))
    send(packed({OST: [(T0 + 360, 400.0)]}))
    drain(lake)
    assert [row[2] for row in rows(lake)] == [60.0, 60.0, 60.0, 60.0, 160.0]


def test_what_nobody_needs_is_not_kept(lake, send):
    assert send(packed({("go_goroutines", ("instance", "x")): [(T0, 5.0)]})).status_code == 204
    assert drain(lake) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        packed({OST: [(T0, 1.0)]})[:-3],
        bytes(cramjam.snappy.compress_raw(b"\xff" * 100)),
        b"\xff\xff\xff\xff\x0f" + b"x" * 9,
        packed({("",): [(T0, 1.0)]}),
    ],
    ids=["text", "cut", "not_a_message", "huge_length", "series_without_name"],
)
def test_body_that_is_not_a_message_is_refused(send, lake, body):
    assert send(body).status_code == 422
    assert drain(lake) == 0


def test_a_bomb_is_not_unpacked(send):
    bomb = bytes(cramjam.snappy.compress_raw(b"\0" * (65 << 20)))
    answer = send(bomb)
    assert answer.status_code == 422
    assert "the limit is" in answer.json()["error"]["message"]


def test_tokens(lake, send):
    assert send(packed({OST: [(T0, 1.0)]}), "wrong").status_code == 401
    narrow = create_token(lake.root, "one", "oss1")
    assert send(packed({OST: [(T0, 1.0)]}), narrow).status_code == 403


def test_clocks_that_are_wrong(lake, send):
    """A sample of next year does not make those of today late."""
    other = (OST[0], ("component", "ost"), ("target", "g-OST0000"))
    send(packed({other: [(T0 + 366 * 86400, 1.0)]}))
    for seconds in (0, 60, 120, 180):
        send(packed({OST: [(T0 + seconds, seconds)]}))
    drain(lake)
    assert [row[2] for row in rows(lake)] == [60.0, 60.0]


def test_a_mapping_of_the_sites_own(lake, send):
    (lake.root / "mapping.toml").write_text(
        '[[metric]]\nnames = ["mine"]\nmetric = "write_bytes"\nsystem = "s"\nkind = "host"\ncomponent = "{host}"\n'
    )
    for seconds in (0, 60, 120, 180):
        send(packed({("mine", ("instance", "n1:1")): [(T0 + seconds, seconds)]}))
    drain(lake)
    assert [row[2] for row in rows(lake, "write_bytes")] == [60.0, 60.0]
    (lake.root / "mapping.toml").write_text("metric = 3")
    assert send(packed({OST: [(T0, 1.0)]})).status_code == 503


def test_a_damaged_state_is_named(lake, send):
    send(packed({OST: [(T0, 1.0)]}))
    drain(lake)
    state = lake.root / "counters" / "prom.json"
    assert json.loads(state.read_text())["version"] == 1
    state.write_text("{")
    send(packed({OST: [(T0 + 60, 1.0)]}))
    with pytest.raises(LakeError, match="damaged"):
        drain(lake)


@pytest.mark.parametrize("milliseconds", [-(1 << 63), -1, (1 << 63) - 1])
def test_a_timestamp_that_no_row_can_have_is_refused_at_the_door(lake, send, milliseconds):
    bad = part(2, b"\x09" + struct.pack("<d", 1.0) + b"\x10" + varint(milliseconds % (1 << 64)))
    names = [("__name__", OST[0]), *OST[1:]]
    labels = b"".join(part(1, part(1, key.encode()) + part(2, value.encode())) for key, value in names)
    answer = send(bytes(cramjam.snappy.compress_raw(part(1, labels + bad))))
    assert answer.status_code == 400
    assert str(milliseconds) in answer.text
    assert not queue.queued(lake.root)


@pytest.mark.parametrize("body", [b"[no json\n", json.dumps({"came_ns": 2**62}).encode() + b"\n"])
def test_the_writer_sets_a_bad_segment_aside_and_goes_on(lake, send, body):
    for seconds in range(0, 240, 60):
        assert send(packed({OST: [(T0 + seconds, seconds)]})).status_code == 204
    if not body.startswith(b"["):
        labels = {key: value for key, *rest in OST[1:] for value in rest}
        body += json.dumps([json.dumps(OST), OST[0], labels, [[-(1 << 63), 1.0], [-5, 2.0]]]).encode() + b"\n"
    with queue.draft_in(lake.root) as draft:
        draft.write_bytes(body)
        queue.enqueue(lake.root, draft, "samples-prom.ndjson", "b" * 32)
    assert run_pass(lake.root) == 0
    assert not queue.queued(lake.root)
    assert [row[2] for row in rows(lake)] == [60.0, 60.0]
    (kept,) = queue.refused_dir(lake.root).rglob("*.ndjson")
    assert kept.read_bytes() == body
    with lake.snapshot() as snapshot:
        ((message,),) = snapshot.query("SELECT message FROM ingests WHERE status = 'quarantined'").fetchall()
    assert str(kept) in message
