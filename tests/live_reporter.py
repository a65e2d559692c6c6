"""A reporter that keeps what a live source says, and clocks that tests set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ioweather.agent.sensor import Clocks


@dataclass
class Heard:
    begun: list[tuple[str, int]] = field(default_factory=list)
    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    progressed: list[tuple[int, int | None, str]] = field(default_factory=list)
    is_done: bool = False

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None:
        self.begun.append((op, request_bytes))

    def row(self, table: str, values: Mapping[str, object]) -> None:
        self.rows.append((table, dict(values)))

    def progress(self, done: int, total: int | None, what: str) -> None:
        self.progressed.append((done, total, what))

    def done(self) -> None:
        self.is_done = True

    def of(self, table: str) -> list[dict[str, Any]]:
        return [values for name, values in self.rows if name == table]


@dataclass
class HandClock:
    """Both clocks, moved by hand. `step` sets the wall clock as an operator would."""

    wall_ns: int = 1_800_000_000_000_000_000
    monotonic_ns: int = 5_000_000_000

    def pass_seconds(self, seconds: float) -> None:
        self.wall_ns += round(seconds * 1e9)
        self.monotonic_ns += round(seconds * 1e9)

    def step_seconds(self, seconds: float) -> None:
        self.wall_ns += round(seconds * 1e9)

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self.wall_ns, lambda: self.monotonic_ns)
