"""The ceiling per node, with the paper's own numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import parse_facility
from ioweather.core.tables import encode_text
from ioweather.core.units import MIB
from ioweather.facts.bandwidth import ceiling_mib_per_s_per_node, peak_of


def test_intrepid() -> None:
    """The tree network gives 700 MiB/s to 64 nodes; 40,960 nodes share what the file system gives."""
    site = parse_facility(
        {
            "node_limit_bytes_per_s": 700 / 64 * MIB,
            "filesystem": {"fs0": {"mounts": ["/intrepid-fs0"], "peak_bytes_per_s": 1.59 * 40_960 * MIB}},
        }
    )
    found = ceiling_mib_per_s_per_node(np.array([64.0, 40_960.0]), encode_text(["/intrepid-fs0"] * 2), site)
    assert found == pytest.approx([10.94, 1.59], abs=0.005)


def test_unknown_limits_are_no_ceiling() -> None:
    nodes, mounts = np.array([1.0, np.nan]), encode_text(["/a", None])
    assert np.isnan(ceiling_mib_per_s_per_node(nodes, mounts, parse_facility({}))).all()
    one = ceiling_mib_per_s_per_node(nodes, mounts, parse_facility({"node_limit_bytes_per_s": 5 * MIB}))
    assert one.tolist() == [5.0, 5.0]


def test_peak_of_the_mount_or_the_highest() -> None:
    systems = {"a": {"peak_bytes_per_s": 3.0}, "b": {"peak_bytes_per_s": 9.0}, "c": {}}
    site = parse_facility({"filesystem": {name: {"mounts": [f"/{name}"], **body} for name, body in systems.items()}})
    assert [peak_of(mount, site) for mount in ("/a", "/a/x", "/b", "/c", "/other", None)] == [
        3.0,
        3.0,
        9.0,
        9.0,
        9.0,
        9.0,
    ]
    assert peak_of("/a", parse_facility({})) is None
