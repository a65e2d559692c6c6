"""To whom a file belongs: its user, its group, and the project that the facility file finds for both and the path."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from ioweather.core.facility import Facility, ProjectRule


class Owner(NamedTuple):
    """Unknown parts are None: a list of paths has no users, and only a scan knows projects."""

    uid: int | None = None
    gid: int | None = None
    project: str | None = None


@cache
def group_name(gid: int) -> str | None:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


@cache
def user_name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


class Projects:
    """Finds the owner of what lies in a directory. Rules see the directory's path with a slash at its end; a rule's
    account is compared with the group's name, because centres name the groups of projects after their accounts."""

    def __init__(self, rules: Sequence[ProjectRule]) -> None:
        self._rules = tuple(rule for rule in rules if rule.exe is None)
        self._by_path = any(rule.path is not None for rule in self._rules)
        self._fallback = Facility()
        self._known: dict[tuple[int, int], Owner] = {}
        self._place = ""

    def owner(self, uid: int, gid: int, directory: str) -> Owner:
        if self._by_path and directory != self._place:
            self._known.clear()
            self._place = directory
        found = self._known.get((uid, gid))
        if found is None:
            found = self._known[(uid, gid)] = Owner(uid, gid, self._project(uid, gid, directory))
        return found

    def _project(self, uid: int, gid: int, directory: str) -> str:
        account = group_name(gid) if self._rules else None
        path = directory if directory.endswith("/") else f"{directory}/"
        for rule in self._rules:
            if rule.matches(account=account, uid=uid, exe=None, path=path):
                return rule.name
        return self._fallback.project_of(uid=uid)
