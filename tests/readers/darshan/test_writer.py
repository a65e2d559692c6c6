"""The writer: what is written is read back, by this reader and by PyDarshan."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ioweather.core.errors import CorruptInput
from ioweather.readers.darshan.binary import sort_mounts
from ioweather.readers.darshan.darshan_reader import DarshanJob, Module, Ragged, read_log
from ioweather.readers.darshan.format import LUSTRE_COMPONENT_DTYPE, LUSTRE_V2_DTYPE
from ioweather.readers.darshan.writer import log_bytes, new_records, write_log

HERE = Path(__file__).parent
JOB = DarshanJob(
    uid=1000,
    job_id=42,
    nprocs=8,
    start_ns=1_700_000_000_123_456_789,
    end_ns=1_700_000_060_987_654_321,
    run_seconds=60.864197532,
    metadata={"lib_ver": "3.4.0"},
    exe="./ior -a POSIX",
    mounts=(("/scratch", "lustre"), ("/", "ext4")),
)
NPROCS = 8
INT64 = st.integers(-(2**63), 2**63 - 1)
WORDS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=20)


@st.composite
def jobs(draw):
    start_ns = draw(st.integers(0, 2**33 * 10**9 - 1))
    end_ns = draw(st.integers(0, 2**33 * 10**9 - 1))
    mounts = draw(st.lists(st.tuples(WORDS, WORDS), max_size=4))
    keys = st.text("abcdefgh_", min_size=1, max_size=8)
    return DarshanJob(
        uid=draw(INT64),
        job_id=draw(INT64),
        nprocs=NPROCS,
        start_ns=start_ns,
        end_ns=end_ns,
        run_seconds=(end_ns - start_ns) / 10**9,
        metadata=draw(st.dictionaries(keys, st.text("xyz=;0 ", max_size=10), max_size=4)),
        exe=" ".join(draw(st.lists(WORDS, max_size=4))),
        mounts=sort_mounts(mounts),
    )


@st.composite
def fixed(draw, module):
    count = draw(st.integers(0, 3))
    dtype = new_records(module, 0).dtype
    # Any bits: NaNs, infinities, negative counters.
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    records = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    records["rank"] = rng.integers(-1, NPROCS, count)
    return records


def heads(draw, module, count):
    records = new_records(module, count)
    records["id"] = draw(hnp.arrays(np.uint64, count))
    records["rank"] = draw(hnp.arrays(np.int64, count, elements=st.integers(-1, NPROCS - 1)))
    return records


@st.composite
def lustre(draw):
    lists = draw(st.lists(st.lists(INT64, max_size=4), max_size=3))
    records = heads(draw, "LUSTRE", len(lists))
    records["LUSTRE_STRIPE_SIZE"] = draw(hnp.arrays(np.int64, len(lists)))
    records["LUSTRE_STRIPE_WIDTH"] = [len(items) for items in lists]
    return Module("LUSTRE", 1, draw(st.booleans()), records, {"ost_ids": Ragged.of(lists)})


@st.composite
def heatmaps(draw):
    bins = draw(st.lists(st.integers(0, 4), max_size=3))
    records = heads(draw, "HEATMAP", len(bins))
    records["bins"] = bins
    records["bin_width_seconds"] = 0.1
    values = st.lists(INT64, min_size=sum(bins), max_size=sum(bins))
    ends = np.cumsum([0, *bins])
    columns = {n: Ragged(ends, np.array(draw(values), dtype=np.int64)) for n in ("write_bins", "read_bins")}
    return Module("HEATMAP", 1, draw(st.booleans()), records, columns)


def as_module(name, given_module):
    if isinstance(given_module, Module):
        return given_module
    return Module(name, {"POSIX": 4, "MPI-IO": 3, "STDIO": 2}[name], False, given_module)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    jobs(),
    st.fixed_dictionaries({}, optional={n: fixed(n) for n in ("POSIX", "MPI-IO", "STDIO")}
                          | {"LUSTRE": lustre(), "HEATMAP": heatmaps()}),
    st.dictionaries(st.integers(0, 2**64 - 1), st.text(st.characters(exclude_categories=["C"]), min_size=1)),
    st.sampled_from(["zlib", "bzip2", "none"]),
)  # fmt: skip
def test_what_is_written_is_read_back(job, modules, names, compress):
    data = log_bytes(job, modules, names, compress=compress)
    assert log_bytes(job, modules, names, compress=compress) == data

    log = read_log(data)

    assert log.job == job
    assert log.names == names
    assert (log.version, log.byte_order, log.compression) == ("3.41", "little", compress)
    written = {name: as_module(name, module) for name, module in modules.items()}
    assert set(log.modules) == {name for name, module in written.items() if len(module.records)}
    assert set(log.partial_modules) == {name for name, module in written.items() if module.partial}
    for name, module in log.modules.items():
        assert module.version == written[name].version
        assert module.records.dtype == written[name].records.dtype
        assert module.records.tobytes() == written[name].records.tobytes()
        for column, lists in module.ragged.items():
            assert np.array_equal(lists.offsets, written[name].ragged[column].offsets)
            assert lists.values.tobytes() == written[name].ragged[column].values.tobytes()


def lustre_v2():
    records = np.zeros(1, LUSTRE_V2_DTYPE)
    records["id"], records["rank"], records["components"], records["stripes"] = 11, -1, 2, 3
    components = np.zeros(2, LUSTRE_COMPONENT_DTYPE)
    components["LUSTRE_COMP_STRIPE_SIZE"] = [1 << 20, 1 << 22]
    components["LUSTRE_COMP_STRIPE_COUNT"] = [2, 1]
    components["pool"] = [b"flash", b""]
    columns = {"components": Ragged(np.array([0, 2]), components), "ost_ids": Ragged.of([[5, 6, 9]])}
    return Module("LUSTRE", 2, False, records, columns)


def example(lustre_module):
    posix = new_records("POSIX", 3)
    posix["id"] = [11, 12, 13]
    posix["rank"] = [-1, 0, 7]
    posix["POSIX_BYTES_WRITTEN"] = [1 << 40, 5, 6]
    posix["POSIX_F_WRITE_TIME"] = [1.5, 2.5, 3.5]
    mpiio, stdio = new_records("MPI-IO", 1), new_records("STDIO", 1)
    mpiio["id"], mpiio["rank"], mpiio["MPIIO_COLL_WRITES"] = 11, -1, 128
    stdio["id"], stdio["STDIO_F_META_TIME"] = 14, 0.25
    heat = new_records("HEATMAP", 2)
    heat["id"], heat["rank"], heat["bins"], heat["bin_width_seconds"] = 99, [0, 1], 3, 0.1
    bins = {"write_bins": Ragged.of([[1, 2, 3], [4, 5, 6]]), "read_bins": Ragged.of([[0, 0, 1], [7, 8, 9]])}
    modules = {"POSIX": posix, "MPI-IO": mpiio, "STDIO": stdio, "LUSTRE": lustre_module,
               "HEATMAP": Module("HEATMAP", 1, False, heat, bins)}  # fmt: skip
    names = {11: "/scratch/a", 12: "/scratch/b", 13: "/tmp/é", 14: "<STDOUT>", 99: "heatmap:POSIX"}
    return modules, names


def lustre_v1():
    records = new_records("LUSTRE", 1)
    records["id"], records["rank"], records["LUSTRE_STRIPE_SIZE"], records["LUSTRE_STRIPE_WIDTH"] = 11, -1, 1 << 20, 2
    return Module("LUSTRE", 1, False, records, {"ost_ids": Ragged.of([[17, 3]])})


@pytest.mark.skipif(importlib.util.find_spec("darshan") is None, reason="PyDarshan is not installed")
@pytest.mark.parametrize("compress", ["zlib", "none"])  # its wheel is built without bzip2
@pytest.mark.parametrize("make_lustre", [lustre_v1, lustre_v2])
def test_pydarshan_reads_what_is_written(tmp_path, compress, make_lustre):
    modules, names = example(make_lustre())
    path = tmp_path / "written.darshan"
    write_log(path, JOB, modules, names, compress=compress)
    command = [sys.executable, HERE / "oracle_pydarshan.py", path]
    answer = pickle.loads(subprocess.run(command, capture_output=True, check=True).stdout.split(b"PICKLE", 1)[1])
    theirs = answer["logs"][str(path)]
    assert theirs["names"] == names
    assert theirs["exe"] == JOB.exe
    assert theirs["mounts"] == list(JOB.mounts)
    job = theirs["job"]
    assert (job["uid"], job["jobid"], job["nprocs"], job["log_ver"]) == (1000, 42, 8, "3.41")
    assert (job["start_time_sec"], job["start_time_nsec"]) == (1_700_000_000, 123_456_789)
    assert (job["end_time_sec"], job["end_time_nsec"]) == (1_700_000_060, 987_654_321)
    assert job["metadata"] == JOB.metadata
    for name in ("POSIX", "MPI-IO", "STDIO"):
        counters, fcounters = answer["names"][name]
        assert len(theirs["records"][name]) == len(modules[name])
        for i, record in enumerate(theirs["records"][name]):
            assert (record["id"], record["rank"]) == (modules[name]["id"][i], modules[name]["rank"][i])
            assert record["counters"].tolist() == [modules[name][c][i] for c in counters]
            assert record["fcounters"].tolist() == [modules[name][c][i] for c in fcounters]
    (stripes,) = theirs["records"]["LUSTRE"]
    osts = np.concatenate([c["ost_ids"] for c in stripes["components"]])
    assert osts.tolist() == modules["LUSTRE"].ragged["ost_ids"][0].tolist()
    assert stripes["components"][0]["counters"][0] == 1 << 20
    heat = theirs["records"]["HEATMAP"]
    assert [h["write_bins"].tolist() for h in heat] == [[1, 2, 3], [4, 5, 6]]
    assert [h["read_bins"].tolist() for h in heat] == [[0, 0, 1], [7, 8, 9]]


def test_a_log_survives_reading_and_writing(samples):
    written = {("POSIX", 4), ("MPI-IO", 3), ("STDIO", 2), ("LUSTRE", 1), ("LUSTRE", 2), ("HEATMAP", 1)}
    paths = [*(samples / "darshan/examples").glob("*.darshan"), *(samples / "darshan/real").glob("*.darshan")]
    binary = [path for path in paths if not path.read_bytes().startswith(b"#")]  # a text may lack counters
    assert len(binary) > 20
    for path in binary:
        log = read_log(path)
        modules = {n: m for n, m in log.modules.items() if (n, m.version) in written}
        again = read_log(log_bytes(log.job, modules, log.names))
        assert again.names == log.names
        assert (again.job.exe, again.job.mounts, again.job.start_ns) == (log.job.exe, log.job.mounts, log.job.start_ns)
        assert list(again.modules) == list(modules)
        assert all(again.modules[n].records.tobytes() == m.records.tobytes() for n, m in modules.items())


def test_what_the_format_cannot_hold_is_refused():
    posix = new_records("POSIX", 1)
    bad_rank = posix.copy()
    bad_rank["rank"] = 8
    wrong_lists = lustre_v1()._replace(ragged={"ost_ids": Ragged.of([[1]])})
    for change, modules, names, message in [
        ({}, {"POSIX": posix[["id", "rank"]]}, {}, "not those of version 4"),
        ({}, {"POSIX": bad_rank}, {}, "ranks"),
        ({}, {"POSX": posix}, {}, "no Darshan module"),
        ({}, {"H5D": posix}, {}, "not written"),
        ({}, {"POSIX": Module("POSIX", 3, False, posix)}, {}, "not written"),
        ({}, {"LUSTRE": wrong_lists}, {}, "lengths"),
        ({}, {"LUSTRE": lustre_v1().records}, {}, "lengths"),
        ({}, {}, {1: ""}, "empty"),
        ({}, {}, {1: "a\0b"}, "NUL"),
        ({"exe": "x" * 4000}, {}, {}, "longer than"),
        ({"exe": "./app\next4\t/"}, {}, {}, "cannot keep"),
        ({"exe": "a\0b"}, {}, {}, "cannot keep"),
        ({"mounts": (("/with space", "nfs"),)}, {}, {}, "cannot keep"),
        ({"metadata": {"a=b": "c"}}, {}, {}, "cannot keep"),
        ({"metadata": {"a": "b\nc=d"}}, {}, {}, "cannot keep"),
        ({"metadata": {"a": "x" * 1024}}, {}, {}, "longer than"),
    ]:
        with pytest.raises(ValueError, match=message):
            log_bytes(JOB._replace(**change), modules, names)
    with pytest.raises((CorruptInput, ValueError)):
        log_bytes(JOB._replace(nprocs=0), {}, {})
