"""The fluid model: flows share resources, and everything that slows a flow is integrated as it happens.

A resource asked for A of its capacity C stretches all flows through it by

    phi = (1 + (A / C)^k)^(1/k)

a smooth max(1, A / C): below saturation requests queue a little, above it the flows share the capacity in proportion
to their demands, and never get more than it (A / phi < C). k = 4 for targets, servers and network; k = 2 for the
metadata server, whose queue builds up earlier. A flow advances at the pace of the most stretched of its resources.

With `closed_loop` a flow asks of its other resources only what its pace at the most stretched lets it send: a transfer
that waits for one slow target does not crowd the others. Without, it asks for all of its demand everywhere.

Beside what happens, each flow is carried through what would have happened: without the incidents (others as they
were), without the others (incidents as they were), and without its own change. The start is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.simulate.flows import Flow
from ioweather.simulate.meter import Meter
from ioweather.simulate.resources import Resources

_ROOM = 64
# Sums that are kept by adding and taking away are computed again this often.
_REFRESH_EVENTS = 512
_DONE_SECONDS = 1e-7
# Of what held-up flows ask elsewhere, which depends on who else is held up; settled to within a percent by then.
_ROUNDS = 6
# What would have happened, by column of the arrays below.
_INCIDENTS, _OTHERS, _USUAL = range(3)

Watcher = Callable[[float, float, list[Flow], Floats], None]


class Fluid:
    """All flows that are under way. Times are seconds since the facility's start."""

    def __init__(self, resources: Resources, meter: Meter, *, closed_loop: bool = False) -> None:
        self._closed_loop = closed_loop
        self._resources = resources
        self._meter = meter
        self._mds = resources.mds
        self._capacity = resources.capacity
        self._healthy = resources.capacity
        self._storm = np.zeros(resources.count)
        self._disturbed = False
        self.now = 0.0
        self.flows: list[Flow] = []
        self._events = 0
        self._grow(_ROOM)
        self._total = np.zeros(resources.count)
        # What flows ask of each resource now, and all together.
        self._asked, self._asked_total = np.zeros((0, resources.count)), self._total
        self.watcher: Watcher | None = None
        self._pace = np.zeros(0)
        self._others_pace = np.zeros((0, 3))
        self._stale = True

    def _grow(self, room: int) -> None:
        count = self._resources.count

        def larger(name: str, *shape: int) -> Any:
            fresh = np.zeros((room, *shape))
            old = getattr(self, name, None)
            if old is not None:
                fresh[: len(old)] = old
            setattr(self, name, fresh)
            return fresh

        self._demand: Floats = larger("_demand", count)
        self._usual: Floats = larger("_usual", count)
        self._used: Floats = larger("_used", count)
        self._left: Floats = larger("_left")
        self._other_left: Floats = larger("_other_left", 3)
        self._other_end: Floats = larger("_other_end", 3)
        self._rpc: Floats = larger("_rpc")
        self._direction: Floats = larger("_direction", 3)
        self._mix: Floats = larger("_mix", self._meter.operations)
        self._changed: Floats = larger("_changed")
        self._alone_pace: Floats = larger("_alone_pace")
        self._moved_ratio: Floats = larger("_moved_ratio")

    def add(self, flow: Flow) -> None:
        if len(self.flows) == len(self._left):
            self._grow(2 * len(self._left))
        slot = len(self.flows)
        self.flows.append(flow)
        usual = flow.normal or flow.pattern
        self._demand[slot] = flow.pattern.demand
        self._usual[slot] = usual.demand
        self._used[slot] = (flow.pattern.demand > 0) | (usual.demand > 0)
        self._left[slot] = flow.pattern.seconds
        self._other_left[slot] = usual.seconds
        self._other_end[slot] = np.nan
        self._rpc[slot] = 1.0 / flow.rpc_bytes
        self._direction[slot] = [flow.kind == kind for kind in ("read", "write", "meta")]
        self._mix[slot] = flow.mix
        self._changed[slot] = flow.normal is not None
        alone = self._stretch(usual.demand, self._healthy)
        pace = float(np.max(alone * (usual.demand > 0)))
        self._alone_pace[slot] = 1.0 / pace
        self._moved_ratio[slot] = flow.moved_ratio
        flow.start = self.now
        flow.alone_seconds = usual.seconds * pace
        self._total += flow.pattern.demand
        self._stale = True

    def disturb(self, health: Floats, storm: Floats) -> None:
        """Incidents: the share of each capacity that is left, and demand that nobody's run makes."""
        self._capacity = self._healthy * health
        self._storm = storm
        self._disturbed = bool(np.any(health < 1.0) or np.any(storm > 0))
        self._stale = True

    def next_end(self) -> float:
        """When the next flow ends if nothing else happens."""
        self._settle()
        count = len(self.flows)
        return self.now + float(np.min(self._left[:count] / self._pace)) if count else np.inf

    def advance(self, until: float) -> list[Flow]:
        """Move on; at most to the next end. Returns the flows that are done."""
        self._settle()
        span = until - self.now
        count = len(self.flows)
        if span > 0 and count:
            if self.watcher is not None:
                self.watcher(self.now, until, self.flows, self._pace)
            self._left[:count] -= self._pace * span
            self._advance_others(span)
        self.now = until
        done = np.flatnonzero(self._left[:count] <= _DONE_SECONDS)
        return self._remove(done) if len(done) else []

    def _settle(self) -> None:
        """Paces of all flows after something changed, and what the meters read from here on."""
        if not self._stale:
            return
        self._stale = False
        self._events += 1
        count = len(self.flows)
        demand = self._demand[:count]
        if self._events % _REFRESH_EVENTS == 0:
            self._total = demand.sum(axis=0)
        used = self._used[:count]
        stretch = self._stretch(self._total + self._storm, self._capacity)
        self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._asked, self._asked_total = demand, self._total
        for _ in range(_ROUNDS if self._closed_loop and count else 0):
            self._asked = demand * np.minimum(1.0, self._pace[:, None] * stretch)
            self._asked_total = self._asked.sum(axis=0)
            stretch = self._stretch(self._asked_total + self._storm, self._capacity)
            self._pace = 1.0 / np.max(used * stretch, axis=1, initial=1.0)
        self._others_pace = self._counterfactual_paces(count, used)
        self._meter.level(self.now, self._levels(count, demand, stretch), stretch)

    def _stretch(self, demand: Floats, capacity: Floats) -> Floats:
        load = demand / capacity
        square = load * load
        stretch: Floats = np.sqrt(np.sqrt(1.0 + square * square))
        stretch[..., self._mds] = np.sqrt(1.0 + square[..., self._mds])
        return stretch

    def _counterfactual_paces(self, count: int, used: Floats) -> Floats:
        """(flow, what would have happened); where nothing differs the pace is the real or the undisturbed one."""
        paces = np.empty((count, 3))
        paces[:, _INCIDENTS] = self._alone_pace[:count]
        paces[:, _OTHERS] = paces[:, _USUAL] = self._pace
        changed = np.flatnonzero(self._changed[:count])
        rest = self._asked_total - self._asked[changed] + self._usual[changed]
        if len(changed):
            usual = self._stretch(rest + self._storm, self._capacity)
            paces[changed, _USUAL] = 1.0 / np.max(used[changed] * usual, axis=1)
            paces[changed, _OTHERS] = paces[changed, _USUAL]
        if self._disturbed and count:
            alone = self._stretch(self._usual[:count] + self._storm, self._capacity)
            paces[:, _INCIDENTS] = 1.0 / np.max(used * alone, axis=1)
            undisturbed = self._stretch(self._asked_total + (self._demand[:count] - self._asked), self._healthy)
            paces[:, _OTHERS] = 1.0 / np.max(used * undisturbed, axis=1)
            if len(changed):
                calm = self._stretch(rest, self._healthy)
                paces[changed, _OTHERS] = 1.0 / np.max(used[changed] * calm, axis=1)
        return paces

    def paces_without_each(self) -> Floats:
        """(flow, other): the pace of each flow if the other were not there; nothing else differs."""
        count = len(self.flows)
        rest = np.maximum(self._asked_total - self._asked, 0.0) + self._storm
        if not self._closed_loop:
            stretch = self._stretch(rest, self._capacity)[None]
        else:  # where the other no longer holds it up, a flow asks for all it wants
            stretch = self._stretch(rest[None] + (self._demand[:count] - self._asked)[:, None], self._capacity)
        return np.asarray(1.0 / np.max(self._used[:count, None, :] * stretch, axis=2, initial=1.0))

    def _advance_others(self, span: float) -> None:
        count = len(self.flows)
        left, pace = self._other_left[:count], self._others_pace
        ends = (left > 0) & (left <= pace * span)
        if ends.any():
            moment = self.now + left / pace
            self._other_end[:count][ends] = moment[ends]
        left -= pace * span

    def _levels(self, count: int, demand: Floats, stretch: Floats) -> Floats:
        """Rates at this moment: bytes read and written, requests, per target; metadata operations."""
        osts = self._resources.osts
        moved = self._direction[:count] * (self._pace * self._moved_ratio[:count])[:, None]
        bytes_moved = moved[:, :2].T @ demand[:, :osts]
        requests = (moved[:, :2] * self._rpc[:count, None]).T @ demand[:, :osts]
        operations = (moved[:, 2] * demand[:, self._mds]) @ self._mix[:count]
        # A storm opens and closes files, and gets through as far as the server can.
        operations[:2] += 0.5 * self._storm[self._mds] / stretch[self._mds]
        return np.concatenate([bytes_moved.ravel(), requests.ravel(), operations])

    def _remove(self, slots: Ints) -> list[Flow]:
        done = []
        for slot in slots[::-1].tolist():
            flow = self.flows[slot]
            self._finish(flow, slot)
            done.append(flow)
            self._total -= flow.pattern.demand
            last = len(self.flows) - 1
            if slot != last:
                self.flows[slot] = self.flows[last]
                for array in (self._demand, self._usual, self._used, self._left, self._other_left, self._other_end,
                              self._rpc, self._direction, self._mix, self._changed, self._alone_pace,
                              self._moved_ratio):  # fmt: skip
                    array[slot] = array[last]
            self.flows.pop()
        self._total = np.maximum(self._total, 0.0)
        self._stale = True
        return done[::-1]

    def _finish(self, flow: Flow, slot: int) -> None:
        flow.end = self.now
        # What was about to end at this very moment ends here.
        ends = np.where(np.isnan(self._other_end[slot]), self.now, self._other_end[slot]) - flow.start
        ends = np.maximum(ends, flow.alone_seconds)
        flow.usual_seconds = float(ends[_USUAL]) if flow.normal is not None else flow.seconds
        flow.with_incidents_seconds = min(float(ends[_INCIDENTS]), flow.usual_seconds)
        flow.with_others_seconds = min(float(ends[_OTHERS]), flow.usual_seconds)
        flow.alone_seconds = min(flow.alone_seconds, flow.with_incidents_seconds, flow.with_others_seconds)
