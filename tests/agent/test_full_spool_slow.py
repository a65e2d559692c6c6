"""The lake is away for days and the spool is full: what is kept goes in once, what was given up is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from fault_scenarios import START_NS, _response, rows_in_lake, rows_in_spool
from ioweather.agent.delivery import Shipper
from ioweather.agent.spool import Keep, Spool, row_line
from ioweather.core.units import MINUTE_NS
from ioweather.lake.lake import open_lake
from shipments import outcome

pytestmark = pytest.mark.slow
_DAYS = 5


@pytest.mark.parametrize("keep", ["newest", "oldest"])
def test_a_spool_that_is_full_for_days_loses_only_what_it_counts(tmp_path: Path, keep: Keep) -> None:
    limit = 200_000
    spool = Spool(tmp_path / "spool", "n1", "run", limit_bytes=limit, keep=keep)
    written = 0
    for minute in range(_DAYS * 1440):
        now = START_NS + minute * MINUTE_NS
        spool.add(row_line("responses", _response("n1", now)))
        written += 1
        spool.flush(now)
        spool.rotate(now)
        if minute % 60 == 0:
            spool.keep_within_limit()
            assert sum(path.stat().st_size for path in spool.closed_files()) <= limit
    end = START_NS + _DAYS * 1440 * MINUTE_NS
    spool.rotate(end, force=True)
    spool.keep_within_limit()
    kept = rows_in_spool(tmp_path / "spool")
    assert len(kept) + spool.dropped_rows == written
    assert 0 < len(kept) < written
    shipper = Shipper(open_lake(tmp_path / "lake", create=True).root)
    shipper.start(spool.closed_files(), 0)
    assert outcome(shipper).ok
    assert sorted(rows_in_lake(tmp_path / "lake")) == sorted(kept)
    spool.close(end)
    print(f"\n{keep}: {written} rows, {spool.dropped_rows} given up, {len(kept)} in the lake")
