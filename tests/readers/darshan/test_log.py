"""Job, names, and what `read_log` promises."""

from __future__ import annotations

import hashlib
import pickle

import pytest

from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput, UnsupportedVersion
from ioweather.readers.darshan.darshan_reader import read_darshan, read_log


def test_from_a_path_and_from_bytes(tmp_path, log_parts, fixed_record):
    data = log_parts(modules=[("POSIX", 4, [fixed_record("<", 11, 0, 69, 17)])]).build()
    path = tmp_path / "job.darshan"
    path.write_bytes(data)
    for log in (read_log(path), read_log(str(path)), read_log(data), read_darshan(path)):
        assert log.digest == hashlib.sha256(data).hexdigest()[:32]
        assert list(log.modules) == ["POSIX"]


def test_only_wanted_modules_are_decompressed(log_parts, fixed_record):
    parts = log_parts(modules=[("POSIX", 4, [fixed_record("<", 11, 0, 69, 17)]), ("STDIO", 2, [b"not records"])])
    assert list(read_log(parts.build(), modules={"POSIX"}).modules) == ["POSIX"]
    with pytest.raises(CorruptInput, match="STDIO"):
        read_log(parts.build())


def test_a_log_without_modules_and_names(log_parts):
    log = read_log(log_parts(names=()).build())
    assert (dict(log.modules), log.names) == ({}, {})


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


def test_metadata_without_an_end_fills_its_room(log_parts):
    job = read_log(log_parts(metadata=b"a=1\nb=" + b"x" * 1018, command=b"./app").build()).job
    assert job.metadata == {"a": "1", "b": "x" * 1018}
    assert job.exe == "./app"


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


def test_ranks_that_the_job_does_not_have_are_refused(log_parts, fixed_record):
    with pytest.raises(CorruptInput, match="ranks that the 4 processes do not have"):
        read_log(log_parts(modules=[("POSIX", 4, [fixed_record("<", 11, 4, 69, 17)])]).build())


def test_errors_name_the_file_and_survive_a_process_border(tmp_path):
    path = tmp_path / "empty.darshan"
    path.touch()
    with pytest.raises(EmptyInput, match=r"empty\.darshan: The file is empty") as caught:
        read_log(path)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "absent.darshan")


@pytest.mark.parametrize("data", [b"hello, world, this is text", b"\0" * 5000, b"PAR1" * 100, b"x"])
def test_other_files(data):
    with pytest.raises(SourceError, match="not a Darshan log"):
        read_log(data)


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
