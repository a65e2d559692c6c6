"""Many small ships into one open day: what a commit costs, and how many files there are, as the day goes on.

    python benchmarks/ships.py [--ships 2000] [--hosts 100] [--alone]

Every host ships five minutes of its devices in turn, as agents do; each ship is one commit of `series` and one of the
ledger. A day goes by from the first to the last: commits are made to look as old as they would be then. The peer (none
with --alone) is `write_deltalake(mode="append")` of the same rows, which looks for nothing that is there already.
Processor seconds of this process. At the end the rows of the lake are compared with those that were shipped.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from pathlib import Path

import arro3.core as arro
import numpy as np
from deltalake import DeltaTable, write_deltalake

from ioweather.core.frames import Frame, Text
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.lake.lake import open_lake

DAY_START_NS = 20_000 * DAY_NS
DEVICES = tuple(f"sd{letter}" for letter in "abcd")
MINUTES = 5


def ship(number: int, hosts: int) -> Frame:
    host, turn = number % hosts, number // hosts
    rows = MINUTES * len(DEVICES)
    minutes = np.repeat(np.arange(MINUTES), len(DEVICES)) + MINUTES * turn % 1440
    return TABLES["series"].frame(
        start_ns=DAY_START_NS + minutes * MINUTE_NS, interval_ns=MINUTE_NS, system=f"host{host:03d}",
        component_kind="device", component=Text(np.tile(np.arange(len(DEVICES), dtype=np.int32), MINUTES), DEVICES),
        metric="read_bytes", value=np.arange(rows) + float(number), quality=np.zeros(rows, np.int64), rows=rows,
    )  # fmt: skip


def plain_append(folder: Path, frame: Frame) -> None:
    columns = {}
    for name, column in frame.items():
        if isinstance(column, Text):
            columns[name] = arro.Array(column.tolist(), type=arro.DataType.utf8())
        else:
            columns[name] = arro.Array.from_numpy(np.ascontiguousarray(column))
    columns["day"] = arro.Array(["2024-10-04"] * frame.rows, type=arro.DataType.utf8())
    write_deltalake(str(folder), arro.Table(columns), mode="append", partition_by=["day"])


def grow_older(lake: Path, seconds: float) -> None:
    """The commits of all tables."""
    for file in lake.glob("tables/*/_delta_log/*"):
        then = file.stat().st_mtime - seconds
        os.utime(file, (then, then))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ships", type=int, default=2000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--alone", action="store_true", help="without the peer")
    arguments = parser.parse_args()
    part = max(1, arguments.ships // 10)
    with tempfile.TemporaryDirectory() as place:
        lake = open_lake(Path(place) / "lake", create=True)
        print(f"{'ships':>8}{'ours, ms':>10}{'append alone, ms':>18}{'ratio':>7}{'files':>7}{'plain files':>13}")
        spent = plain = 0.0
        costs = []
        for number in range(arguments.ships):
            frame = ship(number, arguments.hosts)
            begin = time.process_time()
            lake.append("series", frame, source="block")
            digest = hashlib.sha256(b"%d" % number).hexdigest()[:32]
            record(lake, [FileOutcome(f"/spool/{number}", digest, 4000, "block", "ok", {"series": frame.rows})])
            between = time.process_time()
            if not arguments.alone:
                plain_append(Path(place) / "plain", frame)
            spent, plain = spent + between - begin, plain + time.process_time() - between
            if (number + 1) % 50 == 0:
                grow_older(lake.root, 50 * 86_400 / arguments.ships)
            if (number + 1) % part == 0:
                costs.append(spent / part)
                files = len(DeltaTable(str(lake.root / "tables" / "series")).file_uris())
                held = 0 if arguments.alone else len(DeltaTable(str(Path(place) / "plain")).file_uris())
                ratio = "" if arguments.alone else f"{spent / plain:.1f}"
                print(f"{number + 1:>8}{spent / part * 1e3:>10.1f}{plain / part * 1e3:>18.1f}{ratio:>7}"
                      f"{files:>7}{held:>13}", flush=True)  # fmt: skip
                spent = plain = 0.0
        again = lake.append("series", ship(0, arguments.hosts), source="block")
        assert again == 0, "rows that were there were added"
        assert lake.tables()["series"] == arguments.ships * MINUTES * len(DEVICES)
        slope = float(np.polyfit(np.arange(1, len(costs) + 1) * part, costs, 1)[0]) if len(costs) > 1 else 0.0
        print(f"slope: {slope * 1e6:.1f} ms for each 1,000 ships more in the day; every row is there once")


if __name__ == "__main__":
    main()
