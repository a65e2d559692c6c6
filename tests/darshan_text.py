"""The text of darshan-parser and darshan-dxt-parser, printed by Darshan's own library.

The programs themselves are not packaged; their records, traces and sums are printed and added up by functions of
libdarshan-util, which PyDarshan's wheel has. The lines around them follow the programs' documentation. Run as a
program, because the library prints to the standard output of its process.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_BUFFER_BYTES = 1 << 22
_NEXT = "\f"
_LOG_UTILS = {
    "POSIX": "posix_logutils", "MPI-IO": "mpiio_logutils", "STDIO": "stdio_logutils", "LUSTRE": "lustre_logutils",
    "H5F": "hdf5_file_logutils", "H5D": "hdf5_dataset_logutils", "HEATMAP": "heatmap_logutils",
    "PNETCDF_FILE": "pnetcdf_file_logutils", "PNETCDF_VAR": "pnetcdf_var_logutils", "BG/Q": "bgq_logutils",
    "DXT_POSIX": "dxt_posix_logutils", "DXT_MPIIO": "dxt_mpiio_logutils",
}  # fmt: skip
_SUMMED = ("POSIX", "MPI-IO", "STDIO")
_CATEGORIES = ("total", "read_only", "write_only", "read_write", "unique", "shared")


def printed(form: str, logs: Sequence[Path]) -> list[str]:
    """What the program prints of each log: `base`, `total` (with --file and --perf) or `dxt`."""
    arguments = [sys.executable, __file__, form, *map(str, logs)]
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=300)
    return done.stdout.decode("utf-8", "backslashreplace").split(_NEXT)[1:]


class _Functions(ctypes.Structure):
    """`struct darshan_mod_logutil_funcs`, up to what is called here."""

    _fields_ = [
        ("get_record", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))),
        ("put_record", ctypes.c_void_p),
        ("print_record", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)),
    ]


class _Category(ctypes.Structure):
    """`struct darshan_file_category_counters`."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("count", "read", "written", "max_read", "max_written", "all_offsets", "offset", "processes")
    ]


class _Metrics(ctypes.Structure):
    """`struct darshan_derived_metrics`."""

    _fields_ = [
        ("total_bytes", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("unique_seconds", "unique_rw_seconds", "unique_meta_seconds")),
        ("slowest_rank", ctypes.c_int),
        *((name, ctypes.c_double) for name in ("shared_seconds", "mib_per_s", "seconds")),
        ("categories", _Category * 7),
    ]


def main(form: str, path: str) -> None:
    from darshan.backend import cffi_backend as backend

    library = ctypes.CDLL(next(str(p) for p in Path(backend.__file__).parents[2].glob("darshan.libs/libdarshan-util*")))
    library.darshan_log_open.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.darshan_log_open(path.encode()))
    log = backend.log_open(path)
    _print_header(backend, log)
    names = backend.log_get_name_records(log)
    mounts = [(str(p), str(t)) for p, t in backend.log_get_mounts(log)]
    modules = backend.log_get_modules(log)
    for module, about in sorted(modules.items(), key=lambda item: item[1]["idx"]):
        if module not in _LOG_UTILS or module.startswith("DXT") != (form == "dxt"):
            continue
        if form == "total" and module not in _SUMMED:
            continue
        print(f"\n# {'*' * 55}\n# {module} module data\n# {'*' * 55}", flush=True)
        functions = _Functions.in_dll(library, _LOG_UTILS[module])
        buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
        place = ctypes.c_void_p(ctypes.addressof(buffer))
        if form == "base":
            print("#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>", flush=True)
        if form == "total":
            accumulator = ctypes.c_void_p()
            nprocs = backend.log_get_job(log)["nprocs"]
            library.darshan_accumulator_create(about["idx"], ctypes.c_int64(nprocs), ctypes.byref(accumulator))
        while functions.get_record(handle, ctypes.byref(place)) == 1:
            record_id = ctypes.c_uint64.from_buffer(buffer).value
            name = str(names.get(record_id, ""))
            mount = next(((p, t) for p, t in mounts if name.startswith(p)), ("UNKNOWN", "UNKNOWN"))
            arguments = [place, *(word.encode() for word in (name, *mount))]
            if form == "base":
                functions.print_record(*arguments)
            elif form == "total":
                library.darshan_accumulator_inject(accumulator, place, 1)
            elif module == "DXT_POSIX":
                library.dxt_log_print_posix_file(*arguments, None)
            else:
                library.dxt_log_print_mpiio_file(*arguments)
        if form == "total":
            metrics = _Metrics()
            library.darshan_accumulator_emit(accumulator, ctypes.byref(metrics), place)
            _print_sums(backend, module, buffer, metrics)
        ctypes.CDLL(None).fflush(None)


def _print_header(backend, log) -> None:
    job = backend.log_get_job(log)
    modules = backend.log_get_modules(log)
    raw = backend.ffi.new("struct darshan_job *")
    backend.libdutil.darshan_log_get_job(log["handle"], raw)
    print(f"# darshan log version: {job['log_ver']}\n# compression method: ZLIB\n# exe: {backend.log_get_exe(log)}")
    print(f"# uid: {job['uid']}\n# jobid: {job['jobid']}")
    print(f"# start_time: {raw.start_time_sec}\n# start_time_asci: x\n# end_time: {raw.end_time_sec}")
    print(f"# end_time_asci: x\n# nprocs: {job['nprocs']}\n# run time: {job['run_time']:.4f}")
    for key, value in job["metadata"].items():
        print(f"# metadata: {key} = {value}")
    print("\n# log file regions\n# ---\n# header: 1328 bytes (uncompressed)")
    for module, about in modules.items():
        print(f"# {module} module: {about['len']} bytes (compressed), ver={about['ver']}")
    print("\n# mounted file systems (mount point and fs type)\n# ---")
    for place, kind in backend.log_get_mounts(log):
        print(f"# mount entry:\t{place}\t{kind}")
    sys.stdout.flush()


def _print_sums(backend, module: str, record, metrics: _Metrics) -> None:
    counters, fcounters = backend.counter_names(module), backend.counter_names(module, fcnts=True)
    words = (ctypes.c_int64 * len(counters)).from_buffer(record, 16)
    floats = (ctypes.c_double * len(fcounters)).from_buffer(record, 16 + 8 * len(counters))
    for counter, value in zip(counters, words, strict=True):
        print(f"total_{counter}: {value}")
    for counter, value in zip(fcounters, floats, strict=True):
        print(f"total_{counter}: {value:f}")
    print("\n# <file_type> <file_count> <total_bytes> <max_byte_offset>")
    kinds = [(each.count, each.read + each.written, each.offset) for each in metrics.categories]
    kinds[5:] = [tuple(map(sum, zip(*kinds[5:], strict=True)))]  # shared by some, and by all
    for name, kind in zip(_CATEGORIES, kinds, strict=True):
        print(f"# {name}:", *kind)
    print(f"\n# performance\n# -----------\n# total_bytes: {metrics.total_bytes}")
    print(f"# unique files: slowest_rank_io_time: {metrics.unique_seconds:f}")
    print(f"# shared files: time_by_slowest: {metrics.shared_seconds:f}")
    print(f"# agg_perf_by_slowest: {metrics.mib_per_s:f} # MiB/s", flush=True)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        print(end=_NEXT)
        main(sys.argv[1], each)
