"""Job, names, and what `read_log` promises."""

from __future__ import annotations

import pytest

from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput, UnsupportedVersion
from ioweather.readers.darshan.darshan_reader import read_log


@pytest.mark.parametrize(
    ("command", "exe", "mounts"),
    [
        (b"./app", "./app", ()),
        (b"", "", ()),
        (b"./app\n", "./app", ()),
        (b"./app\next4\t/\nlustre\t/scratch\n", "./app", (("/scratch", "lustre"), ("/", "ext4"))),
        (b'python -c "import os\nprint(1)\n"\next4\t/', 'python -c "import os\nprint(1)\n"', (("/", "ext4"),)),
        (b"a\tb\next4\t/", "a\tb", (("/", "ext4"),)),
        (b"./app\nnfs\t/aa\nnfs\t/bb\nnfs\t/c", "./app", (("/aa", "nfs"), ("/bb", "nfs"), ("/c", "nfs"))),
        (b"./caf\xe9\next4\t/", "./caf\\xe9", (("/", "ext4"),)),
        (b"./app\nnot a mount\next4\t/", "./app\nnot a mount", (("/", "ext4"),)),
    ],
)
def test_command_and_mounts(log_parts, command, exe, mounts):
    job = read_log(log_parts(command=command).build()).job
    assert job.exe == exe
    assert job.mounts == mounts


@pytest.mark.parametrize("version", ["3.00", "3.10", "3.41"])
def test_of_repeated_names_the_first_that_is_not_empty_stands(log_parts, version):
    names = [(11, b""), (12, b"/b"), (11, b"/a"), (11, b"/other"), (2**64 - 1, b"/caf\xe9")]
    log = read_log(log_parts(version=version, names=names).build())
    assert log.names == {12: "/b", 11: "/a", 2**64 - 1: "/caf\\xe9"}


@pytest.mark.parametrize("version", ["3.00", "3.41"])
@pytest.mark.parametrize("keep", [3, 8, 9, 12, 15])
def test_a_name_map_that_breaks_off_is_refused(log_parts, version, keep):
    class Broken(log_parts):
        def name_region(self):
            return super().name_region()[:keep]

    with pytest.raises(CorruptInput, match="name map"):
        read_log(Broken(version=version).build())


@pytest.mark.parametrize(
    "changes",
    [{"nprocs": 0}, {"nprocs": -1}, {"nprocs": 2**40}, {"start": (-1, 0)}, {"end": (2**40, 0)}, {"start": (1, -5)},
     {"end": (1, 10**9)}],
)  # fmt: skip
def test_a_job_that_cannot_be_is_refused(log_parts, changes):
    with pytest.raises(CorruptInput, match="job record"):
        read_log(log_parts(**changes).build())


def test_versions_that_are_not_read(log_parts):
    data = log_parts().build()
    with pytest.raises(UnsupportedVersion, match=r"version 3\.99; versions 3\.00, 3\.10, 3\.20, 3\.21, 3\.41"):
        read_log(b"3.99\0\0\0\0" + data[8:])
    with pytest.raises(CorruptInput, match="magic"):
        read_log(data[:8] + b"\0" * 8 + data[16:])
    with pytest.raises(CorruptInput, match="compression 3"):
        read_log(data[:16] + b"\x03" + data[17:])


@pytest.mark.parametrize("version", ["3.00", "3.41"])
@pytest.mark.parametrize("compression", [0, 1, 2])
def test_no_beginning_of_a_log_is_taken_for_a_log(log_parts, fixed_record, version, compression):
    modules = [("POSIX", 1, [fixed_record("<", 11, 0, 68, 15)])]
    data = log_parts(version=version, compression=compression, modules=modules).build()
    read_log(data)
    for length in range(len(data)):
        with pytest.raises((TruncatedInput, EmptyInput, SourceError)) as caught:
            read_log(data[:length])
        if length >= 8:
            assert isinstance(caught.value, TruncatedInput)
    with pytest.raises(CorruptInput, match="belong to no region"):
        read_log(data + b"\0")
