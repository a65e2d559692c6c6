"""The pool of small files: the oldest is looked at and deleted, a new one is created, so that their number stays.

The files are numbered; the pool is the range [oldest, newest]. They go through the page cache, as files of users do.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

from ioweather.sources.live.contract import Reporter


class FilePool:
    def __init__(self, folder: Path, count: int, file_bytes: int) -> None:
        self.folder = folder
        self.count = count
        self.oldest = 0
        self.newest = -1
        self._content = random.randbytes(file_bytes)

    def path_of(self, number: int) -> str:
        return f"{self.folder}/{number:012d}"

    @property
    def size(self) -> int:
        return self.newest - self.oldest + 1

    def prepare(self, reporter: Reporter) -> None:
        """Make the folder and every file that is missing; remove what lies outside the range."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        present = {int(name) for name in os.listdir(self.folder) if name.isdigit()}  # noqa: PTH208 - names alone
        self.newest = max(max(present, default=0), self.count - 1)
        self.oldest = self.newest - self.count + 1
        for number in present:
            if number < self.oldest:
                os.unlink(self.path_of(number))  # noqa: PTH108
        made = 0
        for number in range(self.oldest, self.newest + 1):
            if number not in present:
                self.create(self.path_of(number))
                made += 1
                if made % 100 == 0:
                    reporter.progress(number - self.oldest + 1, self.count, "making small files")

    def create(self, path: str, flags: int = os.O_CREAT | os.O_EXCL) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
        try:
            os.write(fd, self._content)
        finally:
            os.close(fd)

    def read(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.read(fd, len(self._content) + 1)
        finally:
            os.close(fd)

    def remove(self, reporter: Reporter) -> None:
        names = [name for name in os.listdir(self.folder) if name.isdigit()]  # noqa: PTH208
        for done, name in enumerate(names, 1):
            os.unlink(f"{self.folder}/{name}")  # noqa: PTH108
            if done % 1000 == 0:
                reporter.progress(done, len(names), "removing small files")
        self.folder.rmdir()
