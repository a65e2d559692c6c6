"""What PyDarshan reads from logs, pickled to standard output.

A process of its own: PyDarshan's C library prints, leaks, and ends the process on some logs.
"""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

import darshan.backend.cffi_backend as backend  # noqa: E402

GENERIC = ("POSIX", "MPI-IO", "STDIO", "H5F", "H5D", "PNETCDF_FILE", "PNETCDF_VAR", "BG/Q", "DFS", "DAOS")
OTHERS = ("LUSTRE", "HEATMAP", "DXT_POSIX", "DXT_MPIIO")


def names_of(module: str) -> tuple[list[str], list[str]]:
    key = module.replace("/", "")
    return backend.counter_names(key), backend.counter_names(key, fcnts=True)


def read(path: str) -> dict[str, Any]:
    log = backend.log_open(path)
    try:
        modules = backend.log_get_modules(log)
        result: dict[str, Any] = {
            "job": backend.log_get_job(log),
            "exe": backend.log_get_exe(log),
            "mounts": backend.log_get_mounts(log),
            "names": backend.log_get_name_records(log),
            "modules": dict(modules),
            "records": {},
        }
        for module in modules:
            if module in GENERIC or module in OTHERS:
                records = []
                while (record := backend.log_get_record(log, module, dtype="numpy")) is not None:
                    records.append(record)
                result["records"][module] = records
        return result
    finally:
        backend.log_close(log)


def main() -> None:
    answer = {"names": {module: names_of(module) for module in GENERIC}, "logs": {}}
    for path in sys.argv[1:]:
        answer["logs"][path] = read(path)
    sys.stdout.buffer.write(b"PICKLE" + pickle.dumps(answer))


if __name__ == "__main__":
    main()
