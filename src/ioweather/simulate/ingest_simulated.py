"""A simulated facility into a lake of its own, through the door that every file takes."""

from __future__ import annotations

import shutil
from concurrent.futures import Executor
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import UsageError
from ioweather.core.logs import Progress, silent
from ioweather.core.safe_files import write_whole
from ioweather.core.units import zone_named
from ioweather.ingestion.ingest import ingest
from ioweather.lake import layout, object_store
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.simulate.generate import Generated


def ingest_simulated(
    made: Generated, root: Path, *, executor: Executor | None = None, progress: Progress = silent
) -> Lake:
    """A new lake at `root`; one that is there is replaced only if it is simulated too."""
    if layout.lake_marker(root).exists():
        if not open_lake(root).facility.simulated:
            raise UsageError(f"{root} is a real lake.", hint="Use another directory with --out.")
        shutil.rmtree(root)
    lake = open_lake(root, create=True)
    write_whole(layout.facility_file(root), made.facility.read_bytes(), 0o644)
    object_store.upload(root, [layout.facility_file(root)])
    system = lake.facility.filesystems[0].name
    where = ReadContext(zone=zone_named("UTC"))
    reports = [ingest(lake, [made.data], context=where, executor=executor, progress=progress)]
    for name, start_ns in made.scans.items():
        context = ReadContext(start_ns=start_ns, system=f"mount:/{system}")
        reports.append(ingest(lake, [made.out / "scans" / name], context=context, executor=executor))
    refused = [outcome for report in reports for outcome in report.bad]
    if refused:
        raise UsageError(
            f"{len(refused)} files of the simulated facility were rejected. First: {refused[0].message}",
            hint=f"Create it again with this version. It is in {made.out}.",
        )
    compact(lake)
    return lake
