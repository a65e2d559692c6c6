"""Text that Darshan's own library prints of real logs, against the logs themselves."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from darshan_text import printed
from ioweather.job_io.job_query import heat_maps
from ioweather.job_io.view import SCREEN
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs

SPEC = importlib.util.find_spec("darshan")
pytestmark = pytest.mark.skipif(SPEC is None, reason="PyDarshan is not installed (it has no wheel for this Python)")


def logs(shared=()):
    """Of the wheel, those that are quickly printed."""
    found = sorted(Path(SPEC.origin).parent.rglob("*.darshan")) if SPEC else []
    return [*{path.name: path for path in found if path.stat().st_size < 60_000}.values(), *shared]


def pairs(paths):
    """Each log that the library prints, and its text, both as read."""
    found = []
    for path, text in zip(paths, printed(paths), strict=True):
        if any(not line.startswith("#") for line in text.splitlines() if line):
            found.append((read_log(path), read_log(text.encode())))
    return found


def check_records(paths):
    found = pairs(paths)
    for log, text in found:
        assert text.form == "text"
        assert text.job.start_ns == log.job.start_ns // 10**9 * 10**9
        assert text.job.end_ns == pytest.approx(log.job.end_ns, abs=1.1e9)
        assert not text.unknown_modules or set(text.unknown_modules) <= set(log.modules) | set(log.unknown_modules)
        for name, module in text.modules.items():
            theirs = log.modules[name]
            order, its = (np.lexsort((m.records["rank"], m.records["id"])) for m in (module, theirs))
            # The library reads variances of POSIX 3 as 0.
            known = {field for field in theirs.records.dtype.names if "VARIANCE" not in field}
            for field in known.intersection(module.records.dtype.names):
                mine = module.records[field][order]
                assert np.allclose(mine, theirs.records[field][its], atol=6e-7, rtol=1e-6), (name, field)
        (_, mine), (_, files) = rows_of_logs([text]), rows_of_logs([log])
        for column in ("path", "mount", "osts", "library"):
            assert sorted(map(str, mine.text(column).tolist())) == sorted(map(str, files.text(column).tolist()))
        for one, other in zip(heat_maps(text, SCREEN), heat_maps(log, SCREEN), strict=False):
            if other.origin == "heat map":
                assert np.array_equal(one.write_bytes, other.write_bytes)
                assert np.array_equal(one.read_bytes, other.read_bytes)
    return len(found)


def test_records():
    assert check_records(logs()) >= 8


@pytest.mark.shared
@pytest.mark.slow
def test_shared_logs(shared_data):
    paths = sorted((shared_data / "darshan").rglob("*.darshan"))
    paths = [path for path in paths if path.stat().st_size < 200_000 and not {"v1", "v2", "fork"} & set(path.parts)]
    # Of big-endian logs with POSIX before version 4 the library prints garbage for three counters.
    logs = {path: read_log(path) for path in paths}
    whole = [path for path, log in logs.items() if log.byte_order == "little" and not log.partial_modules]
    assert check_records(whole) >= 60
