"""Shipping: a short-lived child ingests closed files of the spool; what is in the lake is deleted here.

`ioweather ingest` writes the ledger last, so a file that it reports as read is in. The agent never imports the lake.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ioweather.core.units import HOUR_NS, MINUTE_NS

_MOST_FILES = 200
_MOST_REFUSED = 100
_REFUSED = "refused"


@dataclass(frozen=True)
class Shipment:
    """What became of it. `shipped` files are in the lake and deleted; `refused` ones were moved aside."""

    ok: bool
    shipped: int = 0
    refused: int = 0
    message: str = ""


@dataclass
class Shipper:
    """At most one child at a time; after a failure the next try waits twice as long, up to an hour."""

    lake: Path
    every_ns: int = 5 * MINUTE_NS
    command: Sequence[str] = (sys.executable, "-m", "ioweather", "ingest")
    _child: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None
    _files: list[Path] = field(default_factory=list)
    _next_ns: int = 0
    _wait_ns: int = 0

    @property
    def is_busy(self) -> bool:
        return self._child is not None

    def is_due(self, now_ns: int) -> bool:
        return self._child is None and now_ns >= self._next_ns

    def start(self, files: Sequence[Path], now_ns: int) -> None:
        self._next_ns = now_ns + self.every_ns
        self._files = list(files[:_MOST_FILES])
        if not self._files:
            return
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child has ended
        self._child = subprocess.Popen(
            [*self.command, "--json", "--lake", str(self.lake), "--workers", "1", *map(str, self._files)],
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_yield_to_others, cwd="/",
        )  # fmt: skip

    def poll(self, now_ns: int) -> Shipment | None:
        """The outcome, once, when the child has ended."""
        if self._child is None or self._child.poll() is None or self._output is None:
            return None
        code, self._child = self._child.returncode, None
        self._output.seek(0)
        text = self._output.read().decode(errors="replace")
        self._output.close()
        if code not in (0, 1):
            self._wait_ns = min(max(2 * self._wait_ns, self.every_ns), HOUR_NS)
            self._next_ns = now_ns + self._wait_ns
            last = text.strip().splitlines()[-1:] or [f"exit code {code}"]
            return Shipment(False, message=f"the lake took nothing: {last[0][:300]}")
        self._wait_ns = 0
        return self._settle(text)

    def _settle(self, text: str) -> Shipment:
        try:
            refused = {entry["path"]: entry["message"] for entry in json.loads(text)["refused"]}
        except (ValueError, KeyError, TypeError):
            return Shipment(False, message=f"ingest said what is not JSON: {text[:200]!r}")
        for path in self._files:
            if str(path) in refused:
                _set_aside(path)
            else:
                path.unlink(missing_ok=True)
        reason = next(iter(refused.values()), "") or ""
        return Shipment(True, len(self._files) - len(refused), len(refused), reason[:300])


def _yield_to_others() -> None:
    os.nice(10)


def _set_aside(path: Path) -> None:
    """Kept for a person to look at, but not for ever."""
    folder = path.parent.parent / _REFUSED
    folder.mkdir(exist_ok=True)
    path.replace(folder / path.name)
    for old in sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime)[:-_MOST_REFUSED]:
        old.unlink()
