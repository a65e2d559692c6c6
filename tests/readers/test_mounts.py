"""Which mount a path lies on, by mountinfo alone."""

from __future__ import annotations

import pytest

from ioweather.core.safe_files import mount_point, system_of

INFO = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /scratch rw - lustre mgs@o2ib:/fs1 rw
31 30 0:27 / /scratch/deep rw - tmpfs tmpfs rw
32 22 0:28 / /with\040blank rw - tmpfs tmpfs rw
short line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/scratch/a", "/scratch"), ("/scratch", "/scratch"), ("/scratch/deep/x", "/scratch/deep"), ("/scratchy", "/"),
     ("/with blank/x", "/with blank"), ("/", "/")],
)  # fmt: skip
def test_the_longest_mount_wins(path, expected):
    assert mount_point(path, INFO) == expected


def test_this_machine():
    assert system_of("/").startswith("mount:/")
    assert system_of("/proc/self/../self").startswith("mount:/proc")
