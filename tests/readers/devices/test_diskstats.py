"""Logs of /proc/diskstats: three shapes, differences by hand, and what counters do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UndatedInput
from ioweather.core.tables import Quality
from ioweather.readers.reader_catalogue import SOURCES

SECOND = 10**9
T0 = 1794726355242525983
RECORDED = Path(__file__).parents[2] / "data" / "recorded"  # this project's own: record_diskstats.py

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]


def test_one_interval_by_hand(read: Read) -> None:
    path = RECORDED / "diskstats.log"
    lines = path.read_text("ascii").replace("vda", "").splitlines()
    before, after = ([int(text) for text in line.split()] for line in lines[:2])
    # Field 1 of the kernel's documentation stands behind the time and the two numbers of the device.
    grown = [0, *(new - old for old, new in zip(before[3:], after[3:], strict=True))]
    interval = after[0] - before[0]
    rows = read("diskstats", path)
    first = {key[5]: value for key, value in rows.items() if key[0] == before[0]}
    assert {key[1:3] for key in rows if key[0] == before[0]} == {(interval, "localhost:vda")}
    assert grown[5] > 0
    assert first["read_ops"] == grown[1]
    assert first["read_bytes"] == grown[3] * 512
    assert first["write_bytes"] == grown[7] * 512
    assert first["write_await_seconds"] == pytest.approx(grown[8] / grown[5] / 1000)
    spent, done = grown[4] + grown[8] + grown[15], grown[1] + grown[5] + grown[12]  # discards count, as iostat has it
    assert first["await_seconds"] == pytest.approx(spent / done / 1000)
    assert first["busy_ratio"] == pytest.approx(min(1.0, grown[10] / 1000 / (interval / 1e9)))
    assert first["queue_length"] == pytest.approx(grown[11] / 1000 / (interval / 1e9))


def line(time: int | str, device: str = "sda", **fields: int) -> str:
    """A stamped line; fields by their number in the kernel's documentation, f1 to f17."""
    counters = [fields.get(f"f{number}", 0) for number in range(1, 18)]
    return f"{time} 8 0 {device} {' '.join(map(str, counters))}\n"


def read_quality(path: Path) -> dict[tuple[str, int, str], tuple[float | None, int]]:
    return {
        (row["component"], row["start_ns"], row["metric"]): (row["value"], row["quality"])
        for _, frame in SOURCES["diskstats"].read(path, ReadContext())
        for row in frame.records()
    }


def test_wraps_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=5, f4=2**32 - 100, f5=2**32 - 2, f7=2**64 - 8) + line(T0 + SECOND, f1=6, f4=150, f5=3, f7=16)
    )
    rows = read_quality(path)
    assert rows["sda", T0, "read_busy_seconds"] == (0.25, 0)
    assert rows["sda", T0, "write_ops"] == (5.0, 0)
    assert rows["sda", T0, "write_bytes"] == (24.0 * 512, 0)


def test_a_restart_gives_what_was_counted_since(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=1000, f3=8000, f4=70, f10=60)
        + line(T0 + SECOND, f1=10, f3=9000, f4=7, f10=6)
        + line(T0 + 2 * SECOND, f1=15, f3=9001, f4=8, f10=7)
    )
    rows = read_quality(path)
    reset = int(Quality.RESET)
    assert rows["sda", T0, "read_ops"] == (10.0, reset)
    # The sectors did not fall, but they began anew as well.
    assert rows["sda", T0, "read_bytes"] == (9000 * 512.0, reset)
    assert rows["sda", T0 + SECOND, "read_ops"] == (5.0, 0)


def test_doubled_backward_and_missing_samples(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=0) + line(T0, f1=1)  # the same moment twice
        + line(T0, "sdb", f1=100)
        + line(T0 + 1 * SECOND, f1=10) + line(T0 + 1 * SECOND, "sdb", f1=101)
        + line(T0 - 5 * SECOND, f1=20)  # the clock was set back; sdb is gone
        + line(T0 - 4 * SECOND, f1=30)
        + line(T0 + 9 * SECOND, f1=31) + line(T0 + 9 * SECOND, "sdb", f1=109)  # and is back
    )  # fmt: skip
    rows = read("diskstats", path)
    assert pick(rows, metric="read_ops", component="sda") == {
        T0: 10, T0 - 5 * SECOND: 10, T0 - 4 * SECOND: 1
    }  # fmt: skip
    assert pick(rows, metric="read_ops", component="sdb") == {T0: 1, T0 + SECOND: 8}
    assert all(key[1] > 0 for key in rows)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (line(T0) + f"{T0 + SECOND} 8 0 sda 1 2 3 4 5\n", CorruptInput, "line 2"),
        (line(T0) + f"{T0 + SECOND} 8 0 sda {'x ' * 17}\n", CorruptInput, "line 2"),
        (line(T0) + "hello\n", CorruptInput, "line 2.*neither"),
        (line(T0) + line("9999999999999999999"), CorruptInput, "line 2"),
        (line(T0), TruncatedInput, "two snapshots"),
        ("\n", EmptyInput, "no line"),
        ("2026-11-15 07:05:55\n" + line(" "), UndatedInput, "line 1.*zone"),
    ],
)
def test_what_is_refused(tmp_path: Path, read: Read, text: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read("diskstats", path)
