"""Text that Darshan's own library prints of real logs, against the logs themselves."""

from __future__ import annotations

import numpy as np
import pytest

from darshan_text import printed
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs

pytest.importorskip("darshan")


@pytest.mark.shared
def test_text_of_real_logs_has_the_rows_of_the_logs(shared_data):
    paths = [p for p in sorted((shared_data / "darshan/examples").glob("*.darshan")) if p.stat().st_size < 60_000]
    # Of big-endian logs with POSIX before version 4 the library prints garbage for three counters.
    logs = [(path, log) for path in paths if (log := read_log(path)).modules and log.byte_order == "little"]
    assert len(logs) > 30
    for (path, log), text in zip(logs, printed([path for path, _ in logs]), strict=True):
        pasted = read_log(text.encode())
        assert pasted.form == "text"
        assert (pasted.job.start_ns, pasted.job.exe) == (log.job.start_ns // 10**9 * 10**9, log.job.exe), path
        assert pasted.job.end_ns == pytest.approx(log.job.end_ns, abs=1.1e9)
        for name, module in pasted.modules.items():
            order, its = (np.lexsort((m.records["rank"], m.records["id"])) for m in (module, log.modules[name]))
            for field in {*module.records.dtype.names}.intersection(log.modules[name].records.dtype.names):
                if "VARIANCE" not in field:  # the library reads variances of POSIX 3 as 0
                    mine, theirs = module.records[field][order], log.modules[name].records[field][its]
                    assert np.allclose(mine, theirs, atol=6e-7, rtol=1e-6), (path, name, field)
        (_, mine), (_, theirs) = rows_of_logs([pasted]), rows_of_logs([log])
        for column in ("path", "mount", "osts", "library"):
            assert sorted(map(str, mine.text(column).tolist())) == sorted(map(str, theirs.text(column).tolist())), path
