"""Tokens: told once, kept as a hash, for one host or a pattern, gone when revoked."""

from __future__ import annotations

import os

import pytest

from ioweather.core.errors import LakeError, UsageError
from ioweather.ui.web.tokens import create_token, find_token, list_tokens, revoke_token, tokens_file


def test_a_token_is_found_by_its_text_alone_and_kept_as_a_hash(tmp_path):
    os.umask(0o022)
    text = create_token(tmp_path, "n1", "n1")
    assert len(text) >= 43  # 256 bits
    assert tokens_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert text not in tokens_file(tmp_path).read_text()
    found = find_token(tmp_path, text)
    assert found is not None
    assert found.name == "n1"
    for wrong in ("", "n1", text[:-1], text + "x", found.sha256, "\udcff"):
        assert find_token(tmp_path, wrong) is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.json"]


def test_a_pattern_of_hosts(tmp_path):
    found = find_token(tmp_path, create_token(tmp_path, "compute", "nid*"))
    assert found is not None
    assert found.is_for("nid0001")
    assert not found.is_for("login1")
    assert not found.is_for("NID1")


def test_a_revoked_token_is_refused_and_its_name_is_free(tmp_path):
    text = create_token(tmp_path, "n1", "n1")
    with pytest.raises(UsageError, match="already"):
        create_token(tmp_path, "n1", "n1")
    revoke_token(tmp_path, "n1")
    assert find_token(tmp_path, text) is None
    assert list_tokens(tmp_path) == []
    assert create_token(tmp_path, "n1", "n1") != text
    with pytest.raises(UsageError, match="no token"):
        revoke_token(tmp_path, "n2")
    with pytest.raises(UsageError, match="name"):
        create_token(tmp_path, "../n1", "n1")


def test_a_damaged_list_is_said_and_lets_nobody_in(tmp_path):
    tokens_file(tmp_path).write_text("{}")
    with pytest.raises(LakeError, match="damaged"):
        find_token(tmp_path, "x")
