"""What the catalogue says of exhibits is what the studies say."""

from __future__ import annotations

from ioweather.studies.catalogue import KNOWN_MAKERS, STUDIES


def test_known_makers_make_what_is_said():
    assert all(exhibit in STUDIES[study].exhibits for exhibit, study in KNOWN_MAKERS.items())
