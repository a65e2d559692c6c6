"""Take rights away from this process: it may read the files it is given, and write to none.

Landlock (Linux 5.13 and newer) limits which files can be opened. A seccomp filter refuses the system calls that write,
rename, remove, execute or connect; it also works on older kernels. Neither can be undone. Both bind the calling thread
and the threads it starts, so confine a process before it starts threads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from typing import Final

_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _SECCOMP_FILTER = 38, 22, 2
# Landlock's system calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# How many file access rights each version of Landlock's interface knows (include/uapi/linux/landlock.h).
_RIGHTS_OF_VERSION: Final = (0, 13, 14, 15, 15, 16)
_WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Numbers of system calls on x86_64 and aarch64 (linux/audit.h and the tables of the kernel).
_AUDIT_NUMBERS: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Calls whose flags say whether they write: {number: place of the flags among the arguments}.
_OPENING: Final = {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}  # open, openat
_REFUSED: Final = """
    chmod             90   -   |  chown             92   -   |  creat             85   -   |  execve            59 221
    execveat         322 281   |  fallocate        285  47   |  fchmod            91  52   |  fchmodat         268  53
    fchmodat2        452 452   |  fchown            93  55   |  fchownat         260  54   |  file_setattr     469 469
    fremovexattr     199  16   |  fsetxattr        190   7   |  ftruncate         77  46   |  futimesat        261   -
    io_uring_setup   425 425   |  lchown            94   -   |  link              86   -   |  linkat           265  37
    lremovexattr     198  15   |  lsetxattr        189   6   |  mkdir             83   -   |  mkdirat          258  34
    mknod            133   -   |  mknodat          259  33   |  mount            165  40   |  move_mount       429 429
    openat2          437 437   |  open_tree        428 428   |  process_vm_writev 311 271  |  ptrace           101 117
    removexattr      197  14   |  removexattrat    466 466   |  rename            82   -   |  renameat         264  38
    renameat2        316 276   |  rmdir             84   -   |  setxattr         188   5   |  setxattrat       463 463
    socket            41 198   |  symlink           88   -   |  symlinkat        266  36   |  truncate          76  45
    unlink            87   -   |  unlinkat         263  35   |  utime            132   -   |  utimensat        280  88
    utimes           235   -
"""


def confine(files: Iterable[str], directories: Iterable[str] = ()) -> bool:
    """Allow reading these files and everything below these directories, and nothing else.

    Returns False where the kernel offers neither mechanism; then nothing is limited.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return False
    limited = _limit_files(libc, files, directories)
    return _refuse_writing_calls(libc) or limited


def _limit_files(libc: ctypes.CDLL, files: Iterable[str], directories: Iterable[str]) -> bool:
    """Let Landlock refuse to open any other file; False where the kernel has no Landlock."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    handled = struct.pack("Q", (1 << _RIGHTS_OF_VERSION[min(version, 5)]) - 1)
    ruleset = libc.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    try:
        for path, rights in (*((f, _READ_FILE) for f in files), *((d, _READ_FILE | _READ_DIR) for d in directories)):
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                rule = struct.pack("=Qi", rights, fd)
                if libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0)):
                    raise OSError(ctypes.get_errno(), f"Landlock rejected a rule for {path}")
            finally:
                os.close(fd)
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


def _refuse_writing_calls(libc: ctypes.CDLL) -> bool:
    """Install a BPF program (linux/seccomp.h, linux/filter.h) that answers such calls with EPERM."""
    machine = platform.machine()
    if machine not in _AUDIT_NUMBERS:
        return False
    calls = (call.split() for line in _REFUSED.strip().splitlines() for call in line.split("|"))
    numbers = [call[2 if machine == "aarch64" else 1] for call in calls]
    load, jump_equal, jump_greater, jump_bits, give = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    program = [(load, 0, 0, 4), (jump_equal, 1, 0, _AUDIT_NUMBERS[machine]), (give, 0, 0, refuse), (load, 0, 0, 0)]
    # Calls of the x32 interface have this bit.
    program += [(jump_greater, 0, 1, 0x40000000), (give, 0, 0, refuse)]
    for number in (int(text) for text in numbers if text != "-"):
        program += [(jump_equal, 0, 1, number), (give, 0, 0, refuse)]
    for number, argument in _OPENING[machine].items():
        low_word = 16 + 8 * argument
        program += [
            (jump_equal, 0, 4, number),
            (load, 0, 0, low_word),
            (jump_bits, 0, 1, _WRITE_FLAGS),
            (give, 0, 0, refuse),
            (give, 0, 0, allow),
        ]
    program.append((give, 0, 0, allow))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    head = ctypes.create_string_buffer(struct.pack("HP", len(program), ctypes.addressof(code)))
    return bool(libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(head), 0, 0) == 0)
