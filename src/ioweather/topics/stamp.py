"""What every result carries, exhibit or answer: where it came from, and what is always to be said."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ioweather._version import __version__
from ioweather.core.clock import now_ns
from ioweather.core.contracts import ALL_TIME, Period
from ioweather.core.facility import Facility
from ioweather.core.results import Provenance

if TYPE_CHECKING:
    from ioweather.lake.snapshot import Snapshot


def standing_caveats(facility: Facility) -> tuple[str, ...]:
    return ("This facility is simulated.",) if facility.simulated else ()


def of_people(tables: Collection[str]) -> bool:
    """Whether one of the tables has rows of people, of which not everybody sees all."""
    from ioweather.lake.snapshot import OF_THE_FACILITY  # a log alone needs no database

    return bool(set(tables) - OF_THE_FACILITY)


def provenance_of(
    snapshot: Snapshot | None, used: Collection[str], values: Mapping[str, Any], period: Period, *, own_rows: bool
) -> Provenance:
    """`used` are the tables that were read; `own_rows`: of people only rows of the one who asked. Without a lake only
    the parameters and the software are known."""
    params = {**values, **({} if period == ALL_TIME else {"from_ns": period[0], "to_ns": period[1]})}
    if snapshot is None:
        return Provenance(params=params, software_version=__version__, made_ns=now_ns())
    tables = {name: snapshot.pinned[name] for name in snapshot.pinned if name in used}
    versions = {name: files.version for name, files in tables.items() if files.version is not None}
    if own_rows and snapshot.owner is not None:
        params["rows_of"] = snapshot.owner.user  # one person's exhibit is not another's
    digest = hashlib.sha256(
        json.dumps([sorted(snapshot.pinned[name].uris) for name in sorted(versions)]).encode()
    ).hexdigest()[:16]
    return Provenance(
        lake=str(snapshot.root),
        table_versions=versions,
        params=params,
        facility_digest=snapshot.facility.digest,
        input_digest=digest,
        software_version=__version__,
        made_ns=now_ns(),
    )
