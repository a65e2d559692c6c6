"""What a benchmark prints about itself and what the probe measured meanwhile meet in kun19.fig3."""

from __future__ import annotations

import json

import pytest

from ioweather.core.units import NS, parse_time_ns
from ioweather.ui.cli.main import run

IO500 = """\
[run]
procs           = 64
version         = io500-isc24_v3
result-dir      = /fast/results
mode            = standard
; START 2026-03-03 10:00:00

[ior-easy-write]
t_start         = 2026-03-03 10:00:00
exe             = ./ior -k -e -o /fast/data/ior_file_easy -t 2m -F -w
score           = 35.280303
t_delta         = 600.0
t_end           = 2026-03-03 10:10:00

[mdtest-hard-write]
t_start         = 2026-03-03 10:20:00
exe             = ./mdtest -n 1000000 -t -w 3901 -e 3901 -d /fast/data/mdtest-hard -C
score           = 6.662141
t_delta         = 300.0
t_end           = 2026-03-03 10:25:00

[SCORE]
MD              = 6.6
BW              = 35.2
SCORE           = 15.3
hash            = 12345678
; END 2026-03-03 10:25:00
"""
IOR = """\
IOR-4.0.0: MPI Coordinated Test of Parallel I/O
Began               : Tue Mar  3 10:00:00 2026
Command line        : ior -a POSIX -t 1m -b 64m -o /fast/me/file
StartTime           : Tue Mar  3 10:00:00 2026

Options:
api                 : POSIX
test filename       : /fast/me/file
nodes               : 2
tasks               : 8

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     100.00     101.00     0.000608    65536      1024.00    0.014593   599.0000   0.000138   600.0000   0
Max Write: 100.00 MiB/sec (134.22 MB/sec)
Finished            : Tue Mar  3 10:10:00 2026
"""
BEGIN = parse_time_ns("2026-03-03T10:00:00Z")


@pytest.fixture
def segment(tmp_path):
    """The probe, an operation a second from 9:30 to 11:00: reads eight times as slow in the first phase."""
    lines = [{"ioweather_spool": 1, "host": "n1", "boot_id": "b", "run_id": "r", "opened_ns": BEGIN}]
    for second in range(-1800, 3600):
        took = 80_000_000 if 0 <= second < 600 else 10_000_000
        lines.append(
            {"table": "responses", "start_ns": BEGIN + second * NS, "host": "n1", "target": "/fast/p", "op": "read",
             "request_bytes": 1 << 20, "mode": "nocache", "scheduled_ns": BEGIN + second * NS, "duration_ns": took,
             "system": "mount:/fast", "status": "ok"}
        )  # fmt: skip
    path = tmp_path / "seg-n1-1-1.ndjson"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "text", "phases"),
    [
        ("result.txt", IO500, {"ior-easy-write": (0, 600), "mdtest-hard-write": (1200, 1500)}),
        ("ior.out", IOR, {"write": (0, 600)}),
    ],
)
def test_phases_are_shaded_on_the_series_of_the_probe(tmp_path, segment, capsys, name, text, phases):
    output = tmp_path / name
    output.write_text(text)
    lake = ["--lake", str(tmp_path / "lake")]
    assert run(["ingest", str(output), str(segment), "--zone", "UTC", *lake]) == 0
    capsys.readouterr()
    assert run(["show", "kun19.fig3", "--json", *lake]) == 0
    exhibit = json.loads(capsys.readouterr().out)
    begins = [(r["value"] - BEGIN) / NS for r in exhibit["charts"][0]["references"]]
    boxes = {row[0] for row in exhibit["charts"][-1]["table"]["rows"]}
    for phase, (start, _) in phases.items():
        assert min(abs(begin - start) for begin in begins) <= 2
        assert any(phase in label for label in boxes)
    slowest = {e["name"]: e["value"] for e in exhibit["estimates"]}
    first = next(value for label, value in slowest.items() if next(iter(phases)) in label)
    assert first == pytest.approx(8, rel=0.01)
    assert all(value == pytest.approx(1, rel=0.01) for label, value in slowest.items() if "mdtest" in label)
