"""The lake's directory goes away under a running server, and comes back."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request

from ioweather.lake.lake import open_lake
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token
from pushed_segments import START_NS, operations_in, post, segment

PAGES = ("/", "/fragments/weather", "/fragments/now", "/fragments/runs", "/api/v1/lake", "/api/v1/jobs", "/healthz")


def _status(address: str, page: str) -> int:
    try:
        with urllib.request.urlopen(f"{address}{page}", timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_server_whose_lake_was_removed_says_so_and_goes_on_with_a_new_one(root, wait_written):
    token = create_token(root, "n1", "n1")
    with running(create_app(root), bind("127.0.0.1", 0)) as where:
        server = where.rstrip("/")
        assert post(server, token, "n1", "seg-1.ndjson", segment("n1", [START_NS])) == 200
        wait_written(root)
        assert {page: _status(server, page) for page in PAGES} == dict.fromkeys(PAGES, 200)
        shutil.rmtree(root)
        answered = {page: _status(server, page) for page in PAGES}
        assert 500 not in answered.values(), answered
        sent = post(server, token, "n1", "seg-2.ndjson", segment("n1", [START_NS + 10**9]))
        assert sent not in (0, 200, 500), sent
        assert not (root / "tables").exists(), "nothing is made where a lake was removed"
        open_lake(root, create=True)
        token = create_token(root, "n1", "n1")
        assert post(server, token, "n1", "seg-2.ndjson", segment("n1", [START_NS + 10**9])) == 200
        wait_written(root)
        assert operations_in(root) == {("n1", START_NS + 10**9): 1}
        assert {page: _status(server, page) for page in PAGES} == dict.fromkeys(PAGES, 200)
