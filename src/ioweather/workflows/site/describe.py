"""A first draft of facility.toml from what the lake holds."""

from __future__ import annotations

import json
import re

from ioweather.core.facility import FILESYSTEM_TEMPLATE, TEMPLATE
from ioweather.store.snapshot import Snapshot

# Stacked and virtual devices show the bytes of their members again; partitions those of their disk.
_STACKED = re.compile(r":(dm-|md|loop|ram|zram|sr|scd)\d*|:(sd[a-z]+\d+|vd[a-z]+\d+|nvme\d+n\d+p\d+)$")


def systems_of(snapshot: Snapshot) -> set[str]:
    """Raw names of what was sampled and of what was probed."""
    return {group.system for group in snapshot.series()} | _probed(snapshot)


def _probed(snapshot: Snapshot) -> set[str]:
    if not snapshot.pinned["responses"].uris:
        return set()
    named = "SELECT DISTINCT system FROM responses WHERE system IS NOT NULL"
    return {row[0] for row in snapshot.query(named).fetchall()}


def draft_facility(snapshot: Snapshot, *, name: str, zone: str) -> str:
    """One section per Lustre file system and per mount that was probed; one for the whole disks of all hosts."""
    kinds: dict[str, str] = {group.system: group.component_kind for group in snapshot.series()}
    lustre = sorted(system for system, kind in kinds.items() if kind in ("ost", "oss", "mdt", "mds"))
    disks = sorted(system for system, kind in kinds.items() if kind == "device" and not _STACKED.search(system))
    found = {system: {"lustre": [system]} for system in lustre}
    for mount in sorted(name.removeprefix("mount:") for name in _probed(snapshot) if name.startswith("mount:")):
        found.setdefault(mount.strip("/").replace("/", "-") or "root", {}).setdefault("mounts", []).append(mount)
    if disks:
        found.setdefault("disks", {})["devices"] = _patterns(disks)
    sections = [_section(_key(key), **lists) for key, lists in found.items()]
    if not sections:
        sections.append("".join(f"# {line}\n" for line in _section("scratch").splitlines()))
    return TEMPLATE.format(name=name, zone=zone, filesystems="".join(sections))


def _section(name: str, **lists: list[str]) -> str:
    fields = {field: json.dumps(lists.get(field, [])) for field in ("lustre", "mounts", "devices")}
    return FILESYSTEM_TEMPLATE.format(name=name, **fields)


def _patterns(disks: list[str]) -> list[str]:
    """'oss1:sda', 'oss2:sda' -> 'oss*:sda', if that catches nothing else."""
    grouped: dict[str, list[str]] = {}
    for disk in disks:
        host, _, device = disk.partition(":")
        stem = host.rstrip("0123456789")
        grouped.setdefault((stem + "*" if stem != host else host) + ":" + device, []).append(disk)
    return sorted(pattern if len(members) > 1 else members[0] for pattern, members in grouped.items())


def _key(system: str) -> str:
    return system if re.fullmatch(r"[A-Za-z0-9_-]+", system) else f'"{system}"'
