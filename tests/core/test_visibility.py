"""[visibility]: what it may say, whom it trusts, and that nothing said means open."""

from __future__ import annotations

import pytest

from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Owner, parse_facility, parse_visibility


def test_who_writes_the_section_means_own():
    found = parse_visibility({"operators": ["anna"], "uids": {"bob": 1002}})
    assert found.mode == "own"
    assert found.is_said
    assert found.operators == {"anna"}
    assert found.owner("bob") == Owner("bob", (1002,))
    assert found.owner("eve") == Owner("eve", ())


def test_proxies_are_addresses_and_networks():
    found = parse_visibility({"trusted_proxies": ["10.1.2.0/24", "::1"]})
    assert found.trusts("10.1.2.77")
    assert found.trusts("::1")
    assert found.trusts("::ffff:10.1.2.3")
    assert not found.trusts("10.1.3.1")
    assert not found.trusts("127.0.0.1")
    assert not found.trusts("")
    assert not found.trusts("testclient")
    assert parse_visibility({}).trusts("127.0.0.1")
    assert not parse_visibility({"trusted_proxies": []}).trusts("127.0.0.1")


def test_a_socket_is_trusted_where_it_is_named():
    found = parse_visibility({"trusted_proxies": ["socket"]})
    assert found.trusts("socket")
    assert not found.trusts("127.0.0.1")
    assert not parse_visibility({}).trusts("socket")


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ({"mode": "closed"}, "mode"),
        ({"mood": "own"}, "mood"),
        ({"user_header": "X Remote"}, "user_header"),
        ({"user_header": 7}, "user_header"),
        ({"trusted_proxies": ["proxy.example"]}, "proxy.example"),
        ({"trusted_proxies": "127.0.0.1"}, "trusted_proxies"),
        ({"operators": [1]}, "operators"),
        ({"uids": {"bob": "1002"}}, "uids"),
        ({"uids": {"bob": True}}, "uids"),
        ("own", "table"),
    ],
)
def test_what_it_may_not_say(section, word):
    with pytest.raises(IoweatherError, match=word):
        parse_facility({"visibility": section})
