"""One day of 5 s samples as other tools keep it, with the faults that such archives have."""

from __future__ import annotations

from pathlib import Path

from ioweather.simulate.formats.h5lmt import write_h5lmt
from ioweather.simulate.formats.iostat import IostatWriter
from ioweather.simulate.formats.lmt_database import write_database
from ioweather.simulate.observed import Observed, coarser
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Calendar, Resources

# An archive of 248 targets and 17,280 steps as SQL rows would be gigabytes; the database holds its first hours.
_DATABASE_ROWS = 1_500_000


def write_detail(
    folder: Path, observed: Observed, preset: Preset, resources: Resources, calendar: Calendar, seed: int
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    date = calendar.local(observed.readings.start).strftime("%Y-%m-%d")
    write_h5lmt(folder / f"{resources.fsname}_{date}.h5lmt", observed, resources, calendar)
    steps = min(observed.readings.steps, _DATABASE_ROWS // resources.osts)
    write_database(folder / f"{resources.fsname}_{date}.sqlite3", observed, steps, resources, calendar, seed)
    writer = IostatWriter(folder, resources, calendar)
    writer.add(coarser(observed, 60))
    writer.close()
