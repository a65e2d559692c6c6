"""`ioweather scan` as a person runs it."""

from __future__ import annotations

import csv
import io
import json

import pytest


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / ("a-directory-with-quite-a-long-name-" * 3)
    for number in range(5):
        (root / f"d{number}").mkdir(parents=True)
        for index in range(4):
            (root / f"d{number}" / f"f{index}.dat").write_bytes(b"x" * 1000 * index)
    return root


def test_the_summary_fits_the_screen(call, tree, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/facility.toml").write_text(f'[[project]]\nname = "P"\npath = "{tree}/d1/*"\n')
    code, out, err = call("scan", tree, "--lake", tmp_path / "lake")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    for words in ("20 files", "below 1 MiB", "64 days", "uid", "car11.fig8", "P "):
        assert words in out


def test_json_and_csv(call, tree, tmp_path):
    code, out, _ = call("scan", tree, "--lake", tmp_path / "lake", "--json", "--workers", 1, "--rate", 1e9)
    body = json.loads(out)
    assert code == 0
    assert (body["file_count"], body["directory_count"], body["complete"]) == (20, 6, True)
    assert body["largest"]["files"][0]["value"] == 3000
    code, out, _ = call("scan", tree, "--lake", tmp_path / "lake", "--csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert sum(int(row["count"]) for row in lines if (row["owner_kind"], row["histogram"]) == ("all", "size")) == 20
    assert json.loads(call("sql", "SELECT count(*) AS n FROM scans", "--lake", tmp_path / "lake", "--json")[1]) == [
        {"n": 2}
    ]


def test_mistakes_are_named(call, tree, tmp_path):
    for arguments, words in (
        ((tree, "--resume", "--restart"), "cannot be used together"),
        ((tmp_path / "absent",), "absent"),
        ((tree, "--json", "--csv"), "cannot be used together"),
        ((tree, "--rate", "0"), "rate"),
        ((), "PATH"),
    ):
        code, out, err = call("scan", *arguments, "--lake", tmp_path / "lake")
        assert (code, out) == (2, ""), arguments
        assert words in err
        assert "Traceback" not in err
