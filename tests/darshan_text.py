"""The text of darshan-parser, printed by Darshan's own library.

The program is not packaged. PyDarshan's wheel has libdarshan-util, whose functions print the records; the lines
around them follow the program's documentation. Run as a program, because the library prints to its standard output.
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
}  # fmt: skip


def printed(logs: Sequence[Path]) -> list[str]:
    """What the program prints of each log."""
    arguments = [sys.executable, __file__, *map(str, logs)]
    done = subprocess.run(arguments, capture_output=True, check=True, timeout=300)
    return done.stdout.decode("utf-8", "backslashreplace").split(_NEXT)[1:]


class _Functions(ctypes.Structure):
    """`struct darshan_mod_logutil_funcs`, up to what is called here."""

    _fields_ = [
        ("get_record", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))),
        ("put_record", ctypes.c_void_p),
        ("print_record", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)),
    ]


def main(path: str) -> None:
    from darshan.backend import cffi_backend as backend

    library = ctypes.CDLL(next(str(p) for p in Path(backend.__file__).parents[2].glob("darshan.libs/libdarshan-util*")))
    library.darshan_log_open.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(library.darshan_log_open(path.encode()))
    log = backend.log_open(path)
    _print_header(backend, log)
    names = backend.log_get_name_records(log)
    mounts = [(str(p), str(t)) for p, t in backend.log_get_mounts(log)]
    modules = backend.log_get_modules(log)
    for module in sorted(set(modules) & set(_LOG_UTILS), key=lambda name: modules[name]["idx"]):
        print(f"\n# {'*' * 55}\n# {module} module data\n# {'*' * 55}", flush=True)
        functions = _Functions.in_dll(library, _LOG_UTILS[module])
        buffer = ctypes.create_string_buffer(_BUFFER_BYTES)
        place = ctypes.c_void_p(ctypes.addressof(buffer))
        print("#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>", flush=True)
        while functions.get_record(handle, ctypes.byref(place)) == 1:
            record_id = ctypes.c_uint64.from_buffer(buffer).value
            name = str(names.get(record_id, ""))
            mount = next(((p, t) for p, t in mounts if name.startswith(p)), ("UNKNOWN", "UNKNOWN"))
            functions.print_record(place, *(word.encode() for word in (name, *mount)))
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


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(end=_NEXT)
        main(each)
