"""IO500's result.txt: one section per phase, local times, scores in GiB/s and kIOPS."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ioweather.simulate.benchmark import PROCESSES, Benchmark
from ioweather.simulate.flows import Flow
from ioweather.simulate.resources import Calendar, Resources


def write_result(path: Path, benchmark: Benchmark, resources: Resources, calendar: Calendar) -> dict[str, float]:
    """Returns what it says: scores by phase, in bytes or operations per second."""

    def moment(seconds: float) -> str:
        return calendar.local(seconds).strftime("%Y-%m-%d %H:%M:%S")

    speeds: dict[str, float] = {}
    folder = f"/{resources.fsname}/io500"
    lines = ["[run]", f"procs           = {PROCESSES}", "version         = io500-sc24_v1", "config-hash     = 1D2C3B4A",
             f"result-dir      = {folder}/results", "mode            = standard",
             f"; START {moment(benchmark.start)}", ""]  # fmt: skip
    for name, flow in benchmark.flows:
        amount, is_data = _amount(flow, resources)
        speeds[name] = amount / flow.seconds
        score = speeds[name] / 2**30 if is_data else speeds[name] / 1000.0
        exe = f"./ior -e -o {folder}/ior -t 2m -F" if is_data else f"./mdtest -n 100000 -w 3901 -d {folder}/mdt"
        lines += ["", f"[{name}]", f"t_start         = {moment(flow.start)}", f"exe             = {exe}",
                  f"score           = {score:.6f}", f"t_delta         = {flow.seconds:.4f}",
                  f"t_end           = {moment(flow.end)}"]  # fmt: skip
    bandwidths = [speed / 2**30 for name, speed in speeds.items() if name.startswith("ior")]
    rates = [speed / 1000.0 for name, speed in speeds.items() if name.startswith("mdtest")]
    bandwidth, rate = (float(np.exp(np.mean(np.log(values)))) for values in (bandwidths, rates))
    lines += ["", "[SCORE]", f"MD              = {rate:.6f}", f"BW              = {bandwidth:.6f}",
              f"SCORE           = {float(np.sqrt(rate * bandwidth)):.6f}", "hash            = 5A5A5A5A",
              f"; END {moment(benchmark.flows[-1][1].end)}", ""]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    return speeds


def _amount(flow: Flow, resources: Resources) -> tuple[float, bool]:
    demand = flow.pattern.demand * flow.pattern.seconds
    if flow.kind == "meta":
        return float(demand[resources.mds]), False
    return float(demand[: resources.osts].sum()), True
