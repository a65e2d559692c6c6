"""`ioweather serve token` as a person types it."""

from __future__ import annotations

import json

from ioweather.ui.cli.main import run
from ioweather.ui.web.tokens import find_token


def test_create_list_revoke(tmp_path, capsys):
    lake = str(tmp_path / "lake")
    assert run(["serve", "token", "create", "n1", "--lake", lake]) == 0
    text = capsys.readouterr().out.strip()
    found = find_token(tmp_path / "lake", text)
    assert found is not None
    assert found.hosts == "n1"
    assert run(["serve", "token", "create", "all", "--hosts", "nid*", "--lake", lake]) == 0
    capsys.readouterr()
    assert run(["serve", "token", "list", "--json", "--lake", lake]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(entry["token"], entry["hosts"]) for entry in listed] == [("n1", "n1"), ("all", "nid*")]
    assert text not in json.dumps(listed)
    assert run(["serve", "token", "revoke", "n1", "--lake", lake]) == 0
    assert find_token(tmp_path / "lake", text) is None
    assert run(["serve", "token", "revoke", "n1", "--lake", lake]) == 2


def test_other_machines_are_refused_until_it_is_said_who_sees_what(tmp_path, capsys):
    assert run(["serve", "--host", "0.0.0.0", "--port", "0", "--lake", str(tmp_path)]) == 2
    assert "[visibility]" in capsys.readouterr().err
