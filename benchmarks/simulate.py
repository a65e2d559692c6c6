"""How fast a facility is made: model alone, all files, and its logs against PyDarshan reading them back.

python benchmarks/simulate.py [PRESET] [DAYS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import for_days, preset_named
from ioweather.simulate.world import World


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "cluster"
    preset = preset_named(name)
    if len(sys.argv) > 2:
        preset = for_days(preset, int(sys.argv[2]))
    began = time.process_time()
    runs = sum(len(window.runs) for window in World(preset, 1).windows())
    model = time.process_time() - began
    simulated = preset.days * 86400
    print(f"{preset.name}, {preset.days} days, {runs:,} runs")
    print(f"  model alone     {model:8.1f} CPU s   {simulated / model:12,.0f} simulated seconds per second")
    with tempfile.TemporaryDirectory() as folder:
        began, wall = time.process_time(), time.monotonic()
        made = generate(preset, Path(folder) / "facility", seed=1)
        spent, wall = time.process_time() - began, time.monotonic() - wall
        size = sum(path.stat().st_size for path in made.out.rglob("*") if path.is_file())
        print(f"  with all files  {spent:8.1f} CPU s   {wall:.1f} s on the clock, {size / 1e6:,.0f} MB")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  peak memory     {peak:8.0f} MiB")
        _against_pydarshan(made.data, spent - model)


def _against_pydarshan(data: Path, written: float, most: int = 200) -> None:
    try:
        import darshan
    except ImportError:
        print("  PyDarshan is not installed: its logs are not read back")
        return
    logs = sorted(data.rglob("*.darshan"))
    began = time.process_time()
    for path in logs[:most]:
        with darshan.DarshanReport(str(path), read_all=True) as report:
            for module in ("POSIX", "MPI-IO"):
                if module in report.records:
                    report.records[module].to_df()
    each = (time.process_time() - began) / max(1, min(most, len(logs)))
    print(f"  a log is read by PyDarshan in {each * 1e3:.2f} ms; all files together took "
          f"{written / max(1, len(logs)) / each:.2f} of that per log to write")  # fmt: skip


if __name__ == "__main__":
    main()
