"""Blocks of lines: plain, gzipped, torn, with any line ends."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ioweather.core.errors import CorruptInput
from ioweather.sources.textfiles import line_blocks, plain_head, text_blocks


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from("abü\n\u2028 "), max_size=60), size=st.integers(1, 20), zipped=st.booleans())
def test_blocks_hold_all_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, size: int, zipped: bool
) -> None:
    monkeypatch.setattr("ioweather.sources.textfiles._BLOCK_BYTES", size + 3)
    path = tmp_path / "log"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if zipped else data)
    blocks = list(line_blocks(path))
    lines = [line for block in blocks for line in block.lines]
    expected = text.split("\n")
    assert lines == (expected if expected[-1] else expected[:-1])
    assert [block.torn for block in blocks] == [False] * (len(blocks) - 1) + [not text.endswith("\n")] * bool(blocks)
    number = 1
    for block in blocks:
        assert block.first == number
        number += len(block.lines)


def test_what_a_cut_gzip_file_still_holds(tmp_path: Path) -> None:
    text = "".join(f"line {i} {i * 7919 % 10007}\n" for i in range(20_000))
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(text.encode())[:-2000])
    found = "".join(text_blocks(path))
    assert text.startswith(found)
    assert len(found) > len(text) // 2


def test_damage_and_endless_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + b"\xff" * 100)
    with pytest.raises(CorruptInput, match="unzipped"):
        list(line_blocks(path))
    monkeypatch.setattr("ioweather.sources.textfiles._LONGEST_LINE", 1000)
    path.write_bytes(b"\n" + b"x" * 2000)
    with pytest.raises(CorruptInput, match="line 2"):
        list(line_blocks(path))


def test_the_mark_of_an_editor_is_no_text(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfLinux\nmore\n"
    (tmp_path / "log").write_bytes(data)
    assert [block.lines for block in line_blocks(tmp_path / "log")] == [["Linux", "more"]]
    assert plain_head(data) == "Linux\nmore\n"


def test_heads_never_fail() -> None:
    assert plain_head(b"\xff\xfeabc") == "\ufffd\ufffdabc"
    assert plain_head(gzip.compress(b"hello\n" * 100)[:40]).startswith("hello")
    assert plain_head(b"\x1f\x8bnonsense") == ""
    assert plain_head(b"") == ""


def test_what_unzips_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(b"\n" * (90 << 20)))
    with pytest.raises(CorruptInput, match="100 times its size"):
        for _ in text_blocks(path):
            pass
