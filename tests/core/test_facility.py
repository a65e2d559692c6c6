"""facility.toml: mapping at read time, and complaints that name the key."""

from __future__ import annotations

import pytest

from ioweather.core.errors import IoweatherError
from ioweather.core.facility import Facility, load_facility, parse_facility

TEXT = """
name = "Edison"
zone = "America/Los_Angeles"
[filesystem.scratch1]
lustre = ["snx11025"]
mounts = ["/scratch1", "/global"]
devices = ["oss*:sd*"]
probes = ["/scratch1/.ioweather"]
peak_bytes_per_s = 48e9
[filesystem.deep]
mounts = ["/global/deep"]
[[project]]
account = "m12*"
name = "EarthScience"
[[project]]
exe = "*/namd*"
uid = 5
name = "Chemistry"
[[maintenance]]
start = "2018-02-09T08:00:00"
end = "2018-02-09T12:00:00-08:00"
"""


@pytest.fixture
def facility(tmp_path):
    file = tmp_path / "facility.toml"
    file.write_text(TEXT)
    return load_facility(file)


def test_raw_names_map_to_file_systems(facility):
    assert facility.filesystem_of("snx11025") == "scratch1"
    assert facility.filesystem_of("oss12:sdb") == "scratch1"
    assert facility.filesystem_of("mount:/scratch1/x") == "scratch1"
    assert facility.filesystem_of("elsewhere") == "elsewhere"
    assert not facility.is_mapped("elsewhere")


def test_the_longest_mount_wins_and_names_are_whole(facility):
    assert facility.filesystem_of_path("/global/deep/a").name == "deep"
    assert facility.filesystem_of_path("/global/shallow").name == "scratch1"
    assert facility.filesystem_of_path("/globalist") is None


def test_projects_first_match_then_account_then_uid(facility):
    assert facility.project_of(account="m1234") == "EarthScience"
    assert facility.project_of(account="other", uid=5, exe="/bin/namd2") == "Chemistry"
    assert facility.project_of(account="other", uid=6, exe="/bin/namd2") == "other"
    assert facility.project_of(uid=6) == "uid 6"
    assert facility.project_of() == "unknown"


def test_local_times_use_the_facility_zone(facility):
    (window,) = facility.maintenance
    assert window.end_ns - window.start_ns == 4 * 3600 * 10**9


def test_a_missing_file_maps_every_name_to_itself(tmp_path):
    facility = load_facility(tmp_path / "absent.toml")
    assert facility.filesystem_of("x") == "x"
    assert facility == Facility()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nam = 1", "unknown key nam"),
        ("zone = 'Mars/X'", "Mars/X"),
        ("name = 3", "`name` in the top level: it must be text"),
        ("clusters = 'a'", "list of strings"),
        ("[filesystem.x]\npeak = 1", "unknown key peak in .filesystem.x."),
        ("[filesystem.x]\npeak_bytes_per_s = -1", "positive number"),
        ("[filesystem.x]\nmounts = [1]", "list of strings"),
        ("[filesystem]\nx = 1", "must be a table"),
        ("[[filesystem]]\nname = 'x'", "`filesystem` in the top level: it must be a table"),
        ("[[project]]\nname = 'x'", "at least one of"),
        ("[[maintenance]]\nstart = '2026-01-01T00:00:00Z'", "a later `end`"),
        ("[[maintenance]]\nstart = '2026-01-02T00:00:00Z'\nend = '2026-01-01T00:00:00Z'", "a later `end`"),
        ("[[maintenance]]\nstart = '2026-01-02T00:00:00'\nend = '2026-01-03T00:00:00'", "no time zone"),
        ("[retention]\nraw_series = 'long'", "not a duration"),
        ("[retention]\nforever = '1d'", "unknown key forever"),
        ("[ingest]\nstuck_after = 'soon'", "not a duration"),
        ("[ingest]\nstuck_after = '0s'", "too small"),
        ("[ingest]\npatience = '1s'", "unknown key patience"),
        ("= broken", "not valid TOML"),
    ],
)
def test_every_complaint_names_file_and_key(tmp_path, text, complaint):
    file = tmp_path / "facility.toml"
    file.write_text(text)
    with pytest.raises(IoweatherError, match=complaint) as caught:
        load_facility(file)
    assert "facility.toml" in str(caught.value)


def test_a_baseline_is_a_duration_or_the_whole_period():
    assert parse_facility({}).baseline_ns is None
    assert parse_facility({"baseline": "whole"}).baseline_text == "the whole period"
    assert parse_facility({"baseline": "7d"}).baseline_text == "the 7 d before each interval"
    for wrong in ("often", "0s", "q10:7d", ""):
        with pytest.raises(IoweatherError, match="baseline"):
            parse_facility({"baseline": wrong})
