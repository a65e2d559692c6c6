"""facility.toml's [engine]: what to ask the batch system for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ioweather.core.errors import FacilityError

_WALLTIME = re.compile(r"(\d+-)?\d{1,3}:\d\d(:\d\d)?")
_MEMORY = re.compile(r"\d+(\.\d+)? ?[KMGT]i?B")


@dataclass(frozen=True)
class ClusterSettings:
    """One Slurm job: `cores` workers of one thread each, which share `memory`."""

    partition: str | None = None
    account: str | None = None
    walltime: str = "01:00:00"
    cores: int = 1
    memory: str = "2 GiB"
    interface: str | None = None  # the network between login node and compute nodes
    setup: tuple[str, ...] = ()  # shell lines before the workers start: modules, an environment
    directives: tuple[str, ...] = ()  # further options of sbatch

    @property
    def walltime_seconds(self) -> int:
        """`[D-]H:M[:S]`, as sbatch reads it with the hours always there."""
        days, _, clock = self.walltime.rpartition("-")
        hours, minutes, seconds = (*map(int, clock.split(":")), 0)[:3]
        return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds


def cluster_settings(section: Mapping[str, Any]) -> ClusterSettings:
    """[engine] of facility.toml, checked; every complaint names the key."""
    known = {field.name for field in fields(ClusterSettings)}
    if unknown := sorted(set(section) - known):
        raise FacilityError(
            f"unknown key {', '.join(unknown)} in [engine].", hint=f"Known: {', '.join(sorted(known))}."
        )
    found: dict[str, Any] = {}
    for key, value in section.items():
        if key in ("setup", "directives"):
            if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
                raise FacilityError(f"`{key}` in [engine] must be a list of strings.")
            found[key] = tuple(value)
        elif key == "cores":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise FacilityError(f"`cores` in [engine] must be a whole number from 1, not {value!r}.")
            found[key] = value
        elif not isinstance(value, str):
            raise FacilityError(f"`{key}` in [engine] must be a string, not {value!r}.")
        else:
            found[key] = value
    _check_form("walltime", found, _WALLTIME, 'as in "02:00:00"')
    _check_form("memory", found, _MEMORY, 'as in "4 GiB"')
    return ClusterSettings(**found)


def _check_form(key: str, found: Mapping[str, Any], form: re.Pattern[str], example: str) -> None:
    if key in found and not form.fullmatch(found[key]):
        raise FacilityError(f"`{key}` in [engine] must be {example}, not {found[key]!r}.")
