"""The pool of small files: the oldest is looked at and deleted, a new one is created, so that their number stays.

The files are numbered; the pool is the range [oldest, newest]. They go through the page cache, as files of users do.
Names are relative to a descriptor of the pool's directory, `folder`.
"""

from __future__ import annotations

import os
import random
import re
from typing import Final

from ioweather.core.private_directory import PrivateDirectory
from ioweather.sources.live.contract import Progress

_NAME: Final = re.compile(r"[0-9]{12}")
_NEW: Final = os.O_CREAT | os.O_EXCL


class FilePool:
    def __init__(self, count: int, file_bytes: int) -> None:
        self.count = count
        self.oldest = 0
        self.newest = -1
        self._content = random.randbytes(file_bytes)

    @staticmethod
    def name_of(number: int) -> str:
        return f"{number:012d}"

    @property
    def size(self) -> int:
        return self.newest - self.oldest + 1

    def prepare(self, folder: PrivateDirectory, progress: Progress) -> None:
        """Make every file that is missing; remove what lies outside the range. Each file that is there is looked at
        first: what the cycles read and delete are files of ours."""
        present = {int(name) for name in folder.names() if _NAME.fullmatch(name)}
        for done, number in enumerate(present, 1):
            folder.check(self.name_of(number))
            if done % 1000 == 0:
                progress(done, len(present), "looking at small files")
        self.newest = max(max(present, default=0), self.count - 1)
        self.oldest = self.newest - self.count + 1
        for number in present:
            if number < self.oldest:
                folder.unlink(self.name_of(number))
        made = 0
        for number in range(self.oldest, self.newest + 1):
            if number not in present:
                self.create(self.name_of(number), folder.fd)
                made += 1
                if made % 100 == 0:
                    progress(number - self.oldest + 1, self.count, "making small files")

    def create(self, name: str, folder: int, flags: int = _NEW) -> None:
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600, dir_fd=folder)
        try:
            os.write(fd, self._content)
        finally:
            os.close(fd)

    def read(self, name: str, folder: int) -> None:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.read(fd, len(self._content) + 1)
        finally:
            os.close(fd)

    def stat(self, name: str, folder: int) -> None:
        os.stat(name, dir_fd=folder, follow_symlinks=False)

    def delete(self, name: str, folder: int) -> None:
        os.unlink(name, dir_fd=folder)

    def remove(self, folder: PrivateDirectory, progress: Progress) -> None:
        """All of the range; what else lies there is not ours to remove."""
        names = [name for name in folder.names() if _NAME.fullmatch(name) and self.oldest <= int(name) <= self.newest]
        for done, name in enumerate(names, 1):
            folder.discard(name)
            if done % 1000 == 0:
                progress(done, len(names), "removing small files")
