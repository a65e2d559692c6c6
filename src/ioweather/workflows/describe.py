"""A first draft of facility.toml from what the lake holds."""

from __future__ import annotations

import re

from ioweather.core.facility import FILESYSTEM_TEMPLATE, TEMPLATE
from ioweather.store.snapshot import Snapshot

# Stacked and virtual devices show the bytes of their members again; partitions those of their disk.
_STACKED = re.compile(r":(dm-|md|loop|ram|zram|sr|scd)\d*|:(sd[a-z]+\d+|vd[a-z]+\d+|nvme\d+n\d+p\d+)$")


def draft_facility(snapshot: Snapshot, *, name: str, zone: str) -> str:
    """One section per Lustre file system; one for the whole disks of each set of hosts."""
    kinds: dict[str, str] = {group.system: group.component_kind for group in snapshot.series()}
    lustre = sorted(system for system, kind in kinds.items() if kind in ("ost", "oss", "mdt", "mds"))
    disks = sorted(system for system, kind in kinds.items() if kind == "device" and not _STACKED.search(system))
    sections = [
        FILESYSTEM_TEMPLATE.format(name=_key(system), lustre=f'["{system}"]', devices="[]") for system in lustre
    ]
    if disks:
        patterns = ", ".join(f'"{pattern}"' for pattern in _patterns(disks))
        sections.append(FILESYSTEM_TEMPLATE.format(name="disks", lustre="[]", devices=f"[{patterns}]"))
    if not sections:
        sections.append(
            "".join(
                f"# {line}\n"
                for line in FILESYSTEM_TEMPLATE.format(name="scratch", lustre="[]", devices="[]").splitlines()
            )
        )
    return TEMPLATE.format(name=name, zone=zone, filesystems="".join(sections))


def _patterns(disks: list[str]) -> list[str]:
    """'oss1:sda', 'oss2:sda' -> 'oss*:sda', if that catches nothing else."""
    grouped: dict[str, list[str]] = {}
    for disk in disks:
        host, _, device = disk.partition(":")
        grouped.setdefault(re.sub(r"\d+$", "*", host) + ":" + device, []).append(disk)
    return sorted(pattern if len(members) > 1 else members[0] for pattern, members in grouped.items())


def _key(system: str) -> str:
    return system if re.fullmatch(r"[A-Za-z0-9_-]+", system) else f'"{system}"'
