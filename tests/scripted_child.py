"""A child without a process, for the agent's tests: answers ticks as it is told, in the agent's own time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ioweather.agent.sensor import LiveSource, Operation, Origin, Ready, Timing, response_row
from ioweather.agent.spool import row_line
from live_reporter import HandClock


@dataclass
class PlainSource:
    """Two operations a tick."""

    name: str = "probe"
    label: str = "/scratch"
    period_ns: int = 10**9
    operations: tuple[Operation, ...] = (Operation("read", 1 << 20, "nocache"), Operation("stat", 0, "cache"))
    is_periodic: bool = True

    def prepare(self, reporter):
        return Ready("mount:/scratch")

    def cycle(self, scheduled_ns, reporter): ...
    def finish(self, reporter): ...


@dataclass
class ScriptedChild:
    source: LiveSource
    clock: HandClock
    pid: int = 4711
    has_ended: bool = False
    ticks: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    hangs_in: str | None = None
    dismissed: bool = False
    abandoned: bool = False

    def say(self, *body: object) -> None:
        self.said.append(json.dumps(body))

    def ready(self, system: str = "mount:/scratch") -> None:
        self.say("ready", system, "direct", "")

    def tick(self, scheduled_ns: int) -> None:
        self.ticks.append(scheduled_ns)
        for kind in self.source.operations:
            self.say("begin", kind.op, kind.request_bytes, scheduled_ns, self.clock.wall_ns, self.clock.monotonic_ns)
            if kind.op == self.hangs_in:
                return
            self.finish_operation(kind, scheduled_ns)
        self.say("end", 5000, True, "")

    def finish_operation(self, kind: Operation, scheduled_ns: int, took_ns: int = 0) -> None:
        origin = Origin("n1", self.source.label, "mount:/scratch", "r1")
        timing = Timing(self.clock.wall_ns - took_ns, took_ns + 1000)
        self.said.append(row_line("responses", response_row(origin, kind, timing, scheduled_ns, False)))

    def recover(self) -> None:
        """The operation that hung comes to its end, and so does the cycle."""
        kinds = list(self.source.operations)
        place = next(place for place, kind in enumerate(kinds) if kind.op == self.hangs_in)
        for kind in kinds[place:]:
            took = self.clock.wall_ns - self.ticks[-1] if kind.op == self.hangs_in else 0
            self.finish_operation(kind, self.ticks[-1], took)
        self.hangs_in = None
        self.say("end", 5000, True, "")

    def lines(self) -> list[str]:
        said, self.said = self.said, []
        return said

    def dismiss(self) -> None:
        self.dismissed = True
        if self.hangs_in is None:
            self.has_ended = True

    def release(self, *, kill: bool = False) -> None:
        self.abandoned = self.abandoned or kill
        self.has_ended = True


class Nursery:
    """Starts scripted children and remembers them."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.children: list[ScriptedChild] = []

    def __call__(self, source: LiveSource) -> ScriptedChild:
        self.children.append(ScriptedChild(source, self.clock))
        return self.children[-1]
