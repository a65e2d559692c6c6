"""A first draft of facility.toml from what the lake holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ioweather.lake.snapshot import Snapshot

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
    """One section per Lustre file system, and per mount that was probed or that logs found it at; disks go to the file
    system whose servers have them, others into a section of their own."""
    kinds: dict[str, str] = {group.system: group.component_kind for group in snapshot.series()}
    lustre = sorted(system for system, kind in kinds.items() if kind in ("ost", "oss", "mdt", "mds"))
    disks = sorted(system for system, kind in kinds.items() if kind == "device" and not _STACKED.search(system))
    found: dict[str, dict[str, list[str]]] = {system: {"lustre": [system]} for system in lustre}
    probed = {name.removeprefix("mount:") for name in _probed(snapshot) if name.startswith("mount:")}
    for mount in sorted(probed | _lustre_mounts(snapshot)):
        found.setdefault(_at_mount(mount, lustre, probed), {}).setdefault("mounts", []).append(mount)
    for system, own in _disks_of(snapshot, disks).items():
        found.setdefault(system, {})["devices"] = _patterns(own)
    sections = [_section(_key(key), **lists) for key, lists in found.items()]
    if not sections:
        sections.append("".join(f"# {line}\n" for line in _section("scratch").splitlines()))
    clusters = json.dumps(_clusters(snapshot))
    return _draft("facility").format(name=name, zone=zone, clusters=clusters, filesystems="".join(sections))


def _draft(name: str) -> str:
    return Path(__file__).with_name(f"{name}_draft.toml").read_text("utf-8")


def _lustre_mounts(snapshot: Snapshot) -> set[str]:
    """Where Darshan logs found Lustre."""
    if not snapshot.pinned["applications"].uris:
        return set()
    tables = snapshot.query("SELECT DISTINCT mounts FROM applications WHERE mounts IS NOT NULL LIMIT 1000").fetchall()
    return {mount for (text,) in tables for mount, kind in json.loads(text).items() if kind == "lustre"}


def _at_mount(mount: str, lustre: list[str], probed: set[str]) -> str:
    """The section of a mount: the Lustre file system of that name, or the only one where nothing else can be meant."""
    named = mount.strip("/").replace("/", "-") or "root"
    last = mount.rstrip("/").rpartition("/")[2]
    alike = [name for name in (named, last) if name in lustre]
    return alike[0] if alike else lustre[0] if len(lustre) == 1 and mount not in probed else named


def _disks_of(snapshot: Snapshot, disks: list[str]) -> dict[str, list[str]]:
    """Disks by the file system among whose servers their host is; 'disks' where none has it, or several."""
    servers: dict[str, set[str]] = {}
    groups = [g for g in snapshot.series() if g.component_kind in ("oss", "mds")]
    if disks and groups:
        rows = snapshot.rows("series", {"component_kind": ("oss", "mds")}, days={max(g.day for g in groups)})
        for system, server in snapshot.bare.execute(f"SELECT DISTINCT system, component FROM ({rows})").fetchall():
            servers.setdefault(server, set()).add(system)
    if disks and snapshot.pinned["components"].uris:
        told = "SELECT DISTINCT system, server FROM components WHERE server IS NOT NULL"
        for system, server in snapshot.query(told).fetchall():
            servers.setdefault(server, set()).add(system)
    found: dict[str, list[str]] = {}
    for disk in disks:
        of = servers.get(disk.partition(":")[0], set())
        found.setdefault(next(iter(of)) if len(of) == 1 else "disks", []).append(disk)
    return found


def _clusters(snapshot: Snapshot) -> list[str]:
    if not snapshot.pinned["jobs"].uris:
        return []
    named = "SELECT DISTINCT cluster FROM jobs WHERE cluster IS NOT NULL AND cluster <> '' ORDER BY 1"
    return [row[0] for row in snapshot.query(named).fetchall()]


def _section(name: str, **lists: list[str]) -> str:
    fields = {field: json.dumps(lists.get(field, [])) for field in ("lustre", "mounts", "devices")}
    return _draft("filesystem").format(name=name, **fields)


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
