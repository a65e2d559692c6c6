"""To whom a file belongs: its user, its group, and the project that rules find for both and the path."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a process that walks starts twice as fast without it
    from ioweather.core.facility import ProjectRule


class Owner(NamedTuple):
    """Unknown parts are None: a list of paths has no users, and a project is known only where a rule named one."""

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

    def _project(self, uid: int, gid: int, directory: str) -> str | None:
        if not self._rules:
            return None
        account = group_name(gid)
        path = directory if directory.endswith("/") else f"{directory}/"
        matching = (rule for rule in self._rules if rule.matches(account=account, uid=uid, exe=None, path=path))
        return next((rule.name for rule in matching), None)


def project_name(owner: Owner) -> str | None:
    """The project, or what a facility without rules calls the user; when read, such users are mapped again."""
    from ioweather.core.facility import Facility

    if owner.project is not None or owner.uid is None:
        return owner.project
    return Facility().project_of(uid=owner.uid)
