"""Blocks of lines: plain, gzipped, torn, with any line ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ioweather.core.errors import CorruptInput
from ioweather.readers.text_files import beginning, numbered_lines, plain_head, text_blocks


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
        list(numbered_lines(path))
    monkeypatch.setattr("ioweather.readers.text_files._LONGEST_LINE", 1000)
    path.write_bytes(b"\n" + b"x" * 2000)
    with pytest.raises(CorruptInput, match="line 2"):
        list(numbered_lines(path))


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


NOISE = "node1: ERROR: ld.so: object 'x.so' from LD_PRELOAD cannot be preloaded: ignored.\n"


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_noise_before_the_text_is_passed_over_and_line_numbers_stay(tmp_path, monkeypatch, size):
    monkeypatch.setattr("ioweather.readers.text_files._BLOCK_BYTES", size)
    path = tmp_path / "log"
    path.write_bytes((NOISE * 3 + '\n{"a": 1,\n\n"WARNING: b": 2}\n').replace("\n", "\r\n").encode())
    assert json.loads("".join(text_blocks(path))) == {"a": 1, "WARNING: b": 2}
    assert beginning(path).startswith("{")
    assert list(numbered_lines(path)) == [(5, '{"a": 1,', False), (6, "", False), (7, '"WARNING: b": 2}', False)]
