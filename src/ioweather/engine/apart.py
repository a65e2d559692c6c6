"""Work that may never end, take all memory or end its process, done in child processes that live long.

A child that went beyond its allowance is gone; the next piece of work starts another. Children are not workers of an
executor: they belong to the process that reads, be it that of a person, a server or a worker of a cluster, and there
are as many as threads that read at once. While their parent has one thread, as a command has at first, they are copies
of it, which have all that it has loaded: to load it again takes half of the time of a command that reads one file.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import logging
import mmap
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

from ioweather.core.logs import set_up as set_up_logs
from ioweather.core.units import MIB
from ioweather.engine.allowance import BOARD_BYTES, NOWHERE, OVERRUN_CODE, allow_all, data_bytes, limit_here

T = TypeVar("T")
Answer: TypeAlias = tuple[Literal["item", "end", "error"], Any]
_MOST_IDLE: Final = 2
_SPENT_BYTES: Final = 512 * MIB
# Of an allocator that goes on without it in a copy of its process. All others may hold a lock when they are left.
_THREADS_NOT_MISSED: Final = frozenset({"jemalloc_bg_thd"})


class ChildDied(Exception):
    """`overran`: it went beyond its processor time. `position`: the piece it was at; None: at none."""

    def __init__(self, code: int, position: int | None) -> None:
        super().__init__(f"a process ended with {code} at piece {position}")
        self.overran = code == OVERRUN_CODE
        self.position = position


class _Copy(ForkProcess):
    """A copy of this process, to be handled as one that subprocess has started."""

    def wait(self) -> int:
        self.join()
        return cast(int, self.exitcode)


class _Child:
    """One process, which does what it is sent. `modules` are imported while nobody waits yet. `is_spent`: it holds on
    to memory that its work took, and should be followed by another."""

    is_spent = False

    def __init__(self, modules: Sequence[str]) -> None:
        with tempfile.TemporaryFile() as file:
            file.truncate(BOARD_BYTES)
            self._board = mmap.mmap(file.fileno(), BOARD_BYTES)
            struct.pack_into("q", self._board, 0, NOWHERE)
            self._connection, theirs = multiprocessing.Pipe()
            self._process: _Copy | subprocess.Popen[bytes]
            if _may_be_copied():
                self._process = _Copy(target=_copied, args=(theirs, self._board, modules))
                with warnings.catch_warnings():  # Python 3.12 counts the threads too, and knows none by its name
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self._process.start()
            else:
                places = [theirs.fileno(), file.fileno()]
                # -P: a module of the directory that a person happens to be in is not ours.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", f"from {__name__} import main; main()", *map(str, places), *modules],
                    stdin=subprocess.DEVNULL,
                    pass_fds=places,
                )
            theirs.close()

    def results(self, task: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[Any]:
        try:
            self._connection.send((_directory(), task, args))
            while (answer := self._connection.recv())[0] == "item":
                yield answer[1]
        except (EOFError, OSError):
            self._process.kill()
            (position,) = struct.unpack("q", self._board[:])
            raise ChildDied(self._process.wait(), None if position == NOWHERE else position) from None
        kind, value = answer
        if kind == "error":
            raise value
        self.is_spent = bool(value)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()


class Children:
    """Those of this process. Safe to be used by several threads."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: list[_Child] = []

    def results(self, task: Callable[..., Iterator[T]], *args: Any) -> Iterator[T]:
        """What task(*args) yields, in a child; it waits while nobody asks for the next."""
        with self._taken() as child:
            yield from child.results(task, args)

    def call(self, task: Callable[..., T], *args: Any) -> T:
        """task(*args), in a child; not of a task that yields."""
        with self._taken() as child:
            (result,) = child.results(task, args)
        return cast(T, result)

    def start(self, count: int, modules: Sequence[str] = ()) -> None:
        """So many will be needed soon, and these modules."""
        with self._lock:
            self._idle += [_Child((self._module, *modules)) for _ in range(count - len(self._idle))]

    @contextmanager
    def _taken(self) -> Iterator[_Child]:
        with self._lock:
            child = self._idle.pop() if self._idle else _Child((self._module,))
            self._busy.append(child)
        is_good = False
        try:
            yield child
            is_good = not child.is_spent
        finally:
            with self._lock:
                self._busy.remove(child)
                if is_good:
                    self._idle.append(child)
            if not is_good:
                child.kill()

    def rest(self) -> None:
        """Until there is work again: only a few wait for it."""
        with self._lock:
            spare = self._idle[_MOST_IDLE:]
            del self._idle[_MOST_IDLE:]
        for child in spare:
            child.kill()

    def stop(self) -> None:
        """All, whatever they do."""
        with self._lock:
            spare, self._idle = self._idle, []
            for child in self._busy:
                child._process.kill()  # who waits for it takes it away
        for child in spare:
            child.kill()


_children: dict[tuple[int, str], Children] = {}
_lock = threading.Lock()


def children(module: str) -> Children:
    """Of this process, for tasks of `module`; a forked process has its own."""
    with _lock:
        key = os.getpid(), module
        if key not in _children:
            _children[key] = Children(module)
            atexit.register(_children[key].stop)
        return _children[key]


def _directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a text, sent with every task
    except FileNotFoundError:
        return None


def _may_be_copied() -> bool:
    """Whether this process has no thread but the one that asks."""
    own = str(threading.get_native_id())
    try:
        others = [thread for thread in Path("/proc/self/task").iterdir() if thread.name != own]
        return all((thread / "comm").read_text().strip() in _THREADS_NOT_MISSED for thread in others)
    except OSError:  # one that came to its end, or not Linux
        return False


def _copied(connection: Connection, board: mmap.mmap, modules: Sequence[str]) -> None:
    """What its parent has open is its parent's alone: a lock would stay held, and no end of a connection be noticed.
    Nothing is opened in its place, for there are objects that will close it by its number."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in {int(each.name) for each in Path("/proc/self/fd").iterdir()} - {0, 1, 2, nothing, connection.fileno()}:
        with suppress(OSError):  # that of the list itself
            os.fstat(fd)
            os.dup2(nothing, fd, inheritable=False)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    _serve(connection, board, modules)


def main() -> None:
    _serve(Connection(int(sys.argv[1])), mmap.mmap(int(sys.argv[2]), BOARD_BYTES), sys.argv[3:])


def _serve(connection: Connection, board: mmap.mmap, modules: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # goes to the whole group; the parent takes it and ends its children
    set_up_logs()
    logging.getLogger("ioweather.plugins").setLevel(logging.ERROR)  # its parent found the same broken ones, and said so
    limit_here(board)
    for module in modules:
        with suppress(ImportError):
            importlib.import_module(module)
    # Rows of thousands of small files are made of millions of objects that stay until all are read: to look through
    # them for cycles took a fifth of the time.
    gc.freeze()
    gc.set_threshold(200_000)
    usual = data_bytes()
    with suppress(EOFError, ConnectionError):
        while True:
            directory, task, args = connection.recv()
            try:
                if directory is not None:  # names of files count from there
                    os.chdir(directory)
                found = task(*args)
                for item in found if isinstance(found, Iterator) else (found,):
                    connection.send(("item", item))
                last: Answer = ("end", data_bytes() > usual + _SPENT_BYTES)
            except ConnectionError:
                return
            except Exception as error:
                last = ("error", error)
            allow_all()
            _send(connection, last)


def _send(connection: Connection, answer: Answer) -> None:
    try:
        connection.send(answer)
    except ConnectionError:
        raise
    except Exception:  # an error that does not pickle
        connection.send(("error", RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
