"""car11.table2 on planted accounting: every count and hour known."""

from __future__ import annotations

import pytest

from ioweather.core.facility import parse_facility
from ioweather.core.frames import Frame
from ioweather.core.tables import APPLICATIONS, JOBS, encode_text
from ioweather.core.units import NS
from ioweather.studies.car11.instrumentation import instrumented

T = 1_790_000_000 * NS
HOUR = 3600 * NS


def accounting():
    """Four jobs of earth (4 cores, 1 h), two of fire (8 cores, 2 h), a step, one pending, one running."""
    rows = [(i, "earth", "", T, T + HOUR, 4) for i in (1, 2, 3, 4)]
    rows += [(i, "fire", "", T, T + 2 * HOUR, 8) for i in (5, 6)]
    rows += [(1, "earth", "0", T, T + HOUR, 4), (7, "fire", "", None, None, None), (8, "fire", "", T, None, 8)]
    raw, account, step, start, end, cpus = map(list, zip(*rows, strict=True))
    return JOBS.frame(
        cluster="c", job_id=[str(r) for r in raw], raw_job_id=raw, step=step, submit_ns=[T] * len(raw), account=account,
        state="COMPLETED", start_ns=start, end_ns=end, cpu_count=cpus, uid=[7] * len(raw), rows=len(raw),
    )  # fmt: skip


def logs(*ids: int):
    digests = [f"log{n}" for n in range(len(ids))]
    applications = APPLICATIONS.frame(
        log_digest=digests, job_id=list(ids), uid=[7] * len(ids), nprocs=[4] * len(ids), start_ns=[T + NS] * len(ids),
        end_ns=[T + 9 * NS] * len(ids), log_version="3.41", partial_modules="", modules="POSIX", rows=len(ids),
    )  # fmt: skip
    interfaces = ["POSIX,STDIO" if i < 5 else "HDF5,MPI-IO" for i in ids]
    return applications, Frame({"log_digest": encode_text(digests), "interfaces": encode_text(interfaces)})


def make(*ids: int):
    applications, job_io = logs(*ids)
    data = {"jobs": accounting(), "applications": applications, "job_io": job_io}
    return list(instrumented(data, parse_facility({"project": [{"account": "fire", "name": "Combustion"}]})))


def test_counts_hours_and_interfaces():
    (exhibit,) = make(1, 1, 2, 5, 99)
    values = {e.name: e.value for e in exhibit.estimates}
    assert values["jobs_all"] == 6
    assert values["jobs_instrumented"] == 3
    assert values["core_hours_all"] == pytest.approx(4 * 4 + 2 * 16)
    assert values["core_hours_instrumented"] == pytest.approx(2 * 4 + 16)
    assert (values["projects_all"], values["projects_captured"]) == (2, 2)
    combustion, earth = exhibit.tables[0].rows
    assert combustion == ("Combustion", 1, 2, 0.5, 16.0, 32.0, 0.5, "H,M")
    assert earth[:3] == ("earth", 2, 4)
    assert earth[-1] == "S,P"
    jobs, seen = exhibit.coverage
    assert jobs.excluded == {"never_started": 1, "still_running": 1}
    assert (seen.expected, seen.present, seen.excluded) == (5, 4, {"no_accounting": 1})
