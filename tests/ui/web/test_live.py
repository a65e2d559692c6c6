"""The weather as it changes: one reader for all, none for nobody, and no more listeners than there may be."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from urllib.parse import urlsplit

from ioweather.core.errors import DataUnavailable
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.live import Feed


def events_of(chunks: list[bytes]) -> list[str]:
    text = b"".join(chunks).decode()
    return [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]


async def heard(feed: Feed, enough: int) -> list[bytes]:
    chunks = []
    stream = feed.join()
    async for chunk in stream:
        chunks.append(chunk)
        if len(chunks) >= enough:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return chunks


def test_all_hear_the_same_of_one_reader():
    count = iter(range(1000))

    async def listen() -> None:
        feed = Feed(lambda: {"n": next(count)}, look_seconds=0.01)
        found = await asyncio.gather(*(heard(feed, 4) for _ in range(10)))
        for chunks in found:
            assert chunks[0].startswith(b"retry:")
            assert events_of(chunks) == ["now"] * 3
        assert feed.looks < 20
        assert feed.listeners == 0
        looks = feed.looks
        await asyncio.sleep(0.1)
        assert feed.looks <= looks + 1  # nobody listens: nobody reads
        assert len(await heard(feed, 3)) == 3  # and begins anew

    asyncio.run(listen())


def test_what_is_missing_is_an_event_too():
    def read() -> dict[str, object]:
        raise DataUnavailable("No agent has run here.", hint="Start one.")

    async def listen() -> None:
        chunks = await heard(Feed(read, look_seconds=0.01), 2)
        assert events_of(chunks) == ["unavailable"]
        assert b"No agent" in chunks[1]

    asyncio.run(listen())


def test_over_http_it_streams_and_notices_who_goes(lake, tmp_path):
    app = create_app(lake.root, [tmp_path])
    feed: Feed = app.state.feed
    feed.look_seconds, feed.heartbeat_seconds = 0.05, 0.1
    with running(app, bind("127.0.0.1", 0)) as where:
        at = urlsplit(where)
        assert at.hostname is not None
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
        connection.request("GET", "/api/v1/now/stream")
        response = connection.getresponse()
        assert response.status == 200
        assert response.getheader("content-type", "").startswith("text/event-stream")
        assert "default-src 'self'" in response.getheader("content-security-policy", "")
        text = b""
        while b"still here" not in text or b"data: " not in text:
            text += response.readline()
        data = next(line for line in text.decode().splitlines() if line.startswith("data: "))
        assert json.loads(data[6:])["message"] == "No agent has run here."
        assert feed.listeners == 1
        response.close()
        connection.close()
        deadline = time.monotonic() + 20
        while feed.listeners and time.monotonic() < deadline:
            time.sleep(0.02)
        assert feed.listeners == 0


def test_a_server_that_stops_does_not_wait_for_who_listens(lake, tmp_path, caplog):
    app = create_app(lake.root, [tmp_path])
    with running(app, bind("127.0.0.1", 0)) as where:
        at = urlsplit(where)
        assert at.hostname is not None
        connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
        connection.request("GET", "/api/v1/now/stream")
        response = connection.getresponse()
        assert response.readline().startswith(b"retry")
    assert response.read().count(b"data: ") <= 1  # and its end
    response.close()
    connection.close()
    assert not [record for record in caplog.records if "graceful" in record.message]


def test_only_the_facility_that_is_measured_has_a_stream(client):
    assert client.get("/api/v1/now/stream?lake=empty").status_code == 404
    assert 'data-live="/api/v1/now/stream"' in client.get("/").text
    assert "data-live" not in client.get("/?lake=empty").text
