"""The row of a scan is one that tables hold, whatever bytes the names have that it is made of."""

from __future__ import annotations

import os

from ioweather.readers.scan.scan_rows import ScanFacts, scans_frame
from ioweather.readers.scan.tally import Tally


def test_a_system_whose_name_is_not_utf8_is_escaped_as_its_root_is():
    root = os.fsdecode(b"/scratch/\xff\xe9")
    frame = scans_frame(ScanFacts("s1", 0, 1, root, f"mount:{root}"), Tally(1))
    assert frame.text("root").tolist() == ["/scratch/\\xff\\xe9"]
    assert frame.text("system").tolist() == ["mount:/scratch/\\xff\\xe9"]
    assert all(name.encode() for name in frame.text("system").tolist())
