"""The facility at work: jobs wait for nodes, runs compute and do I/O, system jobs and incidents come in between."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ioweather.simulate.applications import make_programs
from ioweather.simulate.flows import IO500_NAME, Benchmark, Flow, make_benchmark
from ioweather.simulate.fluid import Fluid
from ioweather.simulate.incidents import make_incidents, state_at
from ioweather.simulate.meter import Meter, Readings
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import make_calendar, make_resources
from ioweather.simulate.runs import Job, Phase, Run, data_flow, make_jobs, make_run, make_system_jobs, meta_flow

DAY_SECONDS = 86400
# A window of time is kept in memory at once: a day of minutes, or some hours of 5 s samples.
_FINE_WINDOW_SECONDS = 14400
DETAIL_STEP_SECONDS = 5


@dataclass(eq=False)
class Window:
    """What happened in one window: the meters, and what ended in it."""

    readings: Readings
    runs: list[Run] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)


class World:
    """`windows()` runs it from start to end, once."""

    def __init__(self, preset: Preset, seed: int) -> None:
        self.preset, self.seed = preset, seed
        self.calendar = make_calendar(preset)
        self.resources = make_resources(preset, seed)
        self.programs = make_programs(preset, seed)
        self.incidents = make_incidents(preset, self.resources, self.calendar, seed)
        self.benchmark: Benchmark | None = make_benchmark(preset, self.resources)
        self.meter = Meter(self.resources)
        self.fluid = Fluid(self.resources, self.meter, closed_loop=preset.closed_loop)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._waiting: list[Job] = []
        self._running: dict[int, Job] = {}
        self._free_nodes = preset.nodes
        self._next_node = 0
        self._ended_runs: list[Run] = []
        self._ended_jobs: list[Job] = []
        self._plan()

    def _plan(self) -> None:
        for job in make_jobs(self.preset, self.programs, self.calendar, self.seed):
            self._at(job.submit, lambda job=job: self._submit(job))  # type: ignore[misc]
        for system_job in make_system_jobs(self.preset, self.resources, self.calendar, self.seed):
            for flow in system_job.flows:
                self._at(system_job.start, lambda flow=flow: self.fluid.add(flow))  # type: ignore[misc]
        for moment in sorted({moment for incident in self.incidents for moment in incident.moments()}):
            self._at(moment, self._incidents_change)
        if self.benchmark is not None:
            self._at(self.benchmark.start, self._next_benchmark_phase)

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), action))

    def windows(self) -> Iterator[Window]:
        for day in range(self.preset.days):
            step = DETAIL_STEP_SECONDS if day == self.preset.detail_day else self.preset.step_seconds
            length = DAY_SECONDS if step >= 60 or self.resources.osts <= 64 else _FINE_WINDOW_SECONDS
            for begin in range(day * DAY_SECONDS, (day + 1) * DAY_SECONDS, length):
                self.meter.open_day(day, begin, length, step)
                self._run_until(begin + length)
                window = Window(self.meter.close_day(), self._ended_runs, self._ended_jobs)
                self._ended_runs, self._ended_jobs = [], []
                yield window

    def _run_until(self, end: float) -> None:
        while True:
            planned = self._events[0][0] if self._events else float("inf")
            done_at = self.fluid.next_end()
            moment = min(planned, done_at)
            if moment >= end:
                for flow in self.fluid.advance(end):
                    self._ended(flow)
                return
            for flow in self.fluid.advance(moment):
                self._ended(flow)
            while self._events and self._events[0][0] <= self.fluid.now:
                heapq.heappop(self._events)[2]()

    def _incidents_change(self) -> None:
        self.fluid.disturb(*state_at(self.incidents, self.fluid.now, self.resources))

    # Jobs: first come, first served; who fits may overtake.

    def _submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._start_what_fits()

    def _start_what_fits(self) -> None:
        still: list[Job] = []
        for job in self._waiting:
            if job.program.nodes > self._free_nodes:
                still.append(job)
                continue
            self._free_nodes -= job.program.nodes
            job.start = self.fluid.now
            self._running[job.number] = job
            job.first_node = self._next_node
            self._next_node = (self._next_node + job.program.nodes) % self.preset.nodes
            self._start_run(job, 0)
        self._waiting = still

    def _start_run(self, job: Job, instance: int) -> None:
        run = make_run(job, instance, self.fluid.now, self.preset, self.resources, self.seed)
        self._at(self.fluid.now + run.compute_seconds[0], lambda: self._open_files(run, 0))

    def _open_files(self, run: Run, step: int) -> None:
        if run.usual.layout == "none":
            self._end_run(run)
            return
        flow = meta_flow(run, self.preset, self.resources)
        run.phases.append(Phase(step, "meta", flow))
        self.fluid.add(flow)

    def _ended(self, flow: Flow) -> None:
        run = flow.owner
        if isinstance(run, Run):
            phase = run.phases[-1]
            if phase.name == "meta":
                following = data_flow(run, phase.step, self.preset, self.resources)
                run.phases.append(Phase(phase.step, following.kind, following))
                self.fluid.add(following)
            elif phase.step + 1 < run.usual.steps:
                step = phase.step + 1
                self._at(self.fluid.now + run.compute_seconds[step], lambda: self._open_files(run, step))
            else:
                self._end_run(run)
        elif flow.owner == IO500_NAME:
            self._next_benchmark_phase()

    def _end_run(self, run: Run) -> None:
        run.end = self.fluid.now + 0.5
        self._ended_runs.append(run)
        job = run.job
        if run.instance + 1 < job.instances:
            self._at(run.end + 1.0, lambda: self._start_run(job, run.instance + 1))
        else:
            self._at(run.end + 1.0, lambda: self._end_job(job))

    def _end_job(self, job: Job) -> None:
        job.end = self.fluid.now
        del self._running[job.number]
        self._ended_jobs.append(job)
        self._free_nodes += job.program.nodes
        self._start_what_fits()

    def _next_benchmark_phase(self) -> None:
        benchmark = self.benchmark
        if benchmark is not None and (flow := benchmark.next_flow(self.resources)) is not None:
            self.fluid.add(flow)

    def open_jobs(self) -> list[Job]:
        """Jobs that wait or run when the time is over."""
        return sorted([*self._waiting, *self._running.values()], key=lambda job: job.number)
