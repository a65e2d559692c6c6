"""Makes the files beside it, with the code of commit 3c8c550 (schema version 1 of lakes, spools and JSON):

    git worktree add /tmp/version1 3c8c550
    PYTHONPATH=/tmp/version1/src python tests/data/version1/record.py OUT

A small simulated facility becomes a lake, its backup and the JSON of commands; a real probe becomes a spool, which that
version's agent pushes to a server that only writes down what it was sent.
"""

from __future__ import annotations

import base64
import http.server
import json
import subprocess
import sys
import tarfile
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from ioweather.core.tables import TABLES
from ioweather.lake.lake import open_lake
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP, for_days

PRESET = replace(
    for_days(LAPTOP, 1), jobs=30, applications=2, osts=2, probe_hosts=1, probe_seconds=3600, sampler_seconds=14400,
    scan_files=30, detail_day=None, incidents_per_week=20.0, typical_io_seconds=400.0,
)  # fmt: skip
COMMANDS = {
    "why": ("why", "100010"),
    "job": ("job", "100010"),
    "pat19.observations": ("show", "pat19.observations"),
    "kun19.fig1": ("show", "kun19.fig1"),
    "car11.table1": ("show", "car11.table1"),
    "car11.table2": ("show", "car11.table2"),
    "car11.fig3": ("show", "car11.fig3"),
}


def command(*arguments: str, ends: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run([sys.executable, "-m", "ioweather", *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in ends:
        raise SystemExit(f"ioweather {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def pack(folder: Path, file: Path) -> None:
    with tarfile.open(file, "w:xz") as archive:
        archive.add(folder, folder.name)


def record_lake(out: Path, work: Path) -> None:
    lake = ingest_simulated(generate(PRESET, work / "facility", seed=7), work / "lake").root
    command("lake", "backup", str(work / "backup"), "--verify", "--lake", str(lake))
    pack(lake, out / "lake.tar.xz")
    pack(work / "backup", out / "backup.tar.xz")
    record_answers(out, lake)


def record_answers(out: Path, lake: Path) -> None:
    with open_lake(lake).snapshot() as snapshot:
        there = [name for name in TABLES if snapshot.pinned[name].uris]
        rows = {name: snapshot.query(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in there}
    (out / "rows.json").write_text(json.dumps(rows, indent=1) + "\n")
    for name, arguments in COMMANDS.items():
        (out / f"{name}.json").write_text(command(*arguments, "--json", "--lake", str(lake)))


class Recorder(http.server.BaseHTTPRequestHandler):
    requests: list[dict[str, object]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = {"method": "POST", "path": self.path, "headers": dict(self.headers.items())}
        self.requests.append({**asked, "body_base64": base64.b64encode(body).decode()})
        answer = b'{"status": "ok"}'
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


def record_push(out: Path, work: Path) -> None:
    """A probe of this machine, twice: its spool, and what an agent that pushes sends."""
    target, lake, token = work / "target", work / "agent", work / "token"
    target.mkdir()
    command("probe", str(target), "--name", "host", "--pool", "3", "--file-size", "4MiB", "--for", "3s", "--spool",
            str(work / "spool"))  # fmt: skip
    for segment in (work / "spool").rglob("seg-*.ndjson"):
        (out / "segment.ndjson").write_bytes(segment.read_bytes())
    token.write_text("recorded")
    token.chmod(0o600)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        lake.mkdir()
        (lake / "facility.toml").write_text(
            f'name = "Recorded"\n[filesystem.scratch]\nprobes = ["{target}"]\n'
            f'[collect]\nprobe_pool = 3\nprobe_file = "4MiB"\npush_token_file = "{token}"\n'
            f'push_url = "http://127.0.0.1:{server.server_port}"\n'
        )
        command("collect", "probe", "--lake", str(lake), "--spool", str(work / "spool2"), "--for", "3s", ends=(0, 1))
        server.shutdown()
    (out / "pushed.json").write_text(json.dumps(Recorder.requests, indent=1) + "\n")


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        record_push(out, Path(folder))
        record_lake(out, Path(folder))
