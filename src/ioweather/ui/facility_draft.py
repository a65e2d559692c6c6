"""facility.toml from what the lake and this machine show, and what it maps: `ioweather facility init` and `check`."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.core.facility import Facility
from ioweather.core.safe_files import is_inside
from ioweather.core.units import format_bytes, names_of
from ioweather.facts.bandwidth import measured_operations
from ioweather.facts.loads import servers_of
from ioweather.lake.lake import Snapshot

# Stacked and virtual devices show the bytes of their members again; partitions those of their disk.
_STACKED: Final = re.compile(r":(dm-|md|loop|ram|zram|sr|scd)\d*|:(sd[a-z]+\d+|vd[a-z]+\d+|nvme\d+n\d+p\d+)$")
# Types of mounts that several hosts share, and how they are called here.
_SHARED_KINDS: Final = {
    **{name: name for name in names_of("lustre gpfs beegfs ceph panfs wekafs pvfs2 orangefs afs cifs nfs")},
    "nfs4": "nfs",
    "fuse.ceph": "ceph",
    "fuse.glusterfs": "glusterfs",
    "fuse.mfs": "moosefs",
    "beegfs_ondemand": "beegfs",
}
_SERVED: Final = ("ost", "oss", "mdt", "mds")


@dataclass
class _Draft:
    """What a section [filesystem.NAME] will contain."""

    kind: str | None = None
    lustre: list[str] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    servers: dict[str, list[str]] = field(default_factory=dict)
    peak: str = "# peak_bytes_per_s = 48e9       # nominal peak; load is shown as a share of it"


@dataclass(frozen=True)
class Mount:
    """A mounted file system that several hosts share; `name` is what it calls itself, if the mount says."""

    path: str
    kind: str
    name: str | None = None


def shared_mounts(table: str | None = None) -> list[Mount]:
    """Return the shared file systems in a table of mounts: by default that of this machine."""
    if table is None:
        try:
            table = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
    found = []
    for source, path, kind, *_ in (line.split() for line in table.splitlines() if len(line.split()) > 2):
        if kind in _SHARED_KINDS:
            # Lustre mounts `10.1.1.1@o2ib:/scratch/users`, GPFS `/dev/fs1` or `fs1`.
            name = source.rpartition("/")[2] if kind == "gpfs" else None
            if kind == "lustre" and ":/" in source:
                name = source.rpartition(":/")[2].partition("/")[0] or None
            found.append(Mount(path.replace("\\040", " "), _SHARED_KINDS[kind], name))
    return found


def _distinct(snapshot: Snapshot, table: str, columns: str, where: str = "TRUE") -> list[tuple[Any, ...]]:
    """The distinct values of columns in a table, in order; none where the table has no rows."""
    if not snapshot.pinned[table].uris:
        return []
    return snapshot.query(f"SELECT DISTINCT {columns} FROM {table} WHERE {where} ORDER BY ALL").fetchall()


def _probed(snapshot: Snapshot) -> set[str]:
    return {system for (system,) in _distinct(snapshot, "responses", "system", "system IS NOT NULL")}


def systems_of(snapshot: Snapshot) -> set[str]:
    """Raw names of sampled and of probed systems."""
    return {group.system for group in snapshot.series()} | _probed(snapshot)


def logged_mounts(snapshot: Snapshot) -> list[Mount]:
    """Return the shared file systems that Darshan logs found mounted."""
    tables = _distinct(snapshot, "applications", "mounts", "mounts IS NOT NULL")
    found = {mount: kind for (text,) in tables for mount, kind in json.loads(text).items()}
    return [Mount(mount, _SHARED_KINDS[kind]) for mount, kind in sorted(found.items()) if kind in _SHARED_KINDS]


def draft_facility(snapshot: Snapshot, mounts: Iterable[Mount] = (), *, name: str, zone: str) -> str:
    """Return a facility.toml: one section per Lustre file system, and per mount that is shared or was probed.

    `mounts` are those of this machine; logs and probes give more. Disks go to the file system whose servers have them,
    others into a section of their own.
    """
    kinds: dict[str, str] = {group.system: group.component_kind for group in snapshot.series()}
    kinds |= {system: kind for system, kind, _ in _attached(snapshot)}
    lustre = sorted(system for system, kind in kinds.items() if kind in _SERVED)
    found: dict[str, _Draft] = {system: _Draft("lustre", [system]) for system in lustre}
    probed = {system.removeprefix("mount:") for system in _probed(snapshot) if system.startswith("mount:")}
    seen = {mount.path: mount for mount in (*logged_mounts(snapshot), *mounts)}
    for path in sorted({*seen, *probed}):
        mount = seen.get(path)
        key = _section_of(path, mount, lustre, probed)
        draft = found.setdefault(key, _Draft())
        draft.kind = draft.kind or (mount.kind if mount else None)
        if mount is not None and mount.kind == "lustre" and mount.name and not draft.lustre:
            draft.lustre = [mount.name]
        draft.mounts.append(path)
    _add_servers(snapshot, found)
    disks = sorted(system for system, kind in kinds.items() if kind == "device" and not _STACKED.search(system))
    for system, own in _disks_of(snapshot, disks).items():
        found.setdefault(system, _Draft()).devices = _patterns(own)
    _add_peaks(snapshot, found)
    sections = [_section(key, draft) for key, draft in found.items()]
    if not sections:
        example = _section("scratch", _Draft("lustre", ["scratch"], ["/scratch"]))
        sections.append("".join(f"# {line}\n" if line else "\n" for line in example.splitlines()))
    head = Path(__file__).with_name("facility_head.toml").read_text("utf-8")
    named = _distinct(snapshot, "jobs", "cluster", "cluster IS NOT NULL AND cluster <> ''")
    clusters = json.dumps([cluster for (cluster,) in named])
    return head.format(name=name, zone=zone, clusters=clusters, filesystems="".join(sections))


def _section_of(path: str, mount: Mount | None, lustre: list[str], probed: set[str]) -> str:
    """The section of a mount: the file system that it names, the Lustre file system of that name, or the only one where
    nothing else can be meant."""
    named = path.strip("/").replace("/", "-") or "root"
    if mount is not None and mount.name:
        return mount.name
    if mount is not None and mount.kind != "lustre":
        return named
    alike = [name for name in (named, path.rstrip("/").rpartition("/")[2]) if name in lustre]
    return alike[0] if alike else lustre[0] if len(lustre) == 1 and path not in probed else named


def _attached(snapshot: Snapshot) -> list[tuple[Any, ...]]:
    """(system, kind, component) of the topology."""
    return _distinct(snapshot, "components", "system, kind, component")


def _add_servers(snapshot: Snapshot, found: Mapping[str, _Draft]) -> None:
    """Add to each file system its servers with their targets, as the topology has them."""
    parts = [part for part in _attached(snapshot) if part[1] in ("ost", "mdt")]
    homes = servers_of(snapshot, [component for _, _, component in parts])
    for system, _, component in parts:
        if component in homes and system in found:
            found[system].servers.setdefault(homes[component], []).append(component)


def _disks_of(snapshot: Snapshot, disks: list[str]) -> dict[str, list[str]]:
    """Disks by the file system among whose servers their host is; 'disks' where none has it, or several."""
    servers: dict[str, set[str]] = {}
    groups = [g for g in snapshot.series() if g.component_kind in ("oss", "mds")]
    if disks and groups:
        rows = snapshot.rows("series", {"component_kind": ("oss", "mds")}, days={max(g.day for g in groups)})
        for system, server in snapshot.bare.execute(f"SELECT DISTINCT system, component FROM ({rows})").fetchall():
            servers.setdefault(server, set()).add(system)
    of_targets = "server IS NOT NULL AND kind <> 'host'"
    for system, server in _distinct(snapshot, "components", "system, server", of_targets) if disks else ():
        servers.setdefault(server, set()).add(system)
    found: dict[str, list[str]] = {}
    for disk in disks:
        of = servers.get(disk.partition(":")[0], set())
        found.setdefault(next(iter(of)) if len(of) == 1 else "disks", []).append(disk)
    return found


def _add_peaks(snapshot: Snapshot, found: Mapping[str, _Draft]) -> None:
    """Set the peak to the fastest phase of a benchmark that ran there, or anywhere if there is only one file system."""
    ran = measured_operations(snapshot.frame("benchmarks")) if snapshot.pinned["benchmarks"].uris else ()
    fastest: dict[str, tuple[float, str]] = {}
    for measured in ran:
        paths = re.findall(r"/[^\s=,'\"]*", str(measured.parameters.get("command") or ""))
        mounted = [name for name, own in found.items() if own.kind]
        here = [name for name in mounted if any(is_inside(p, mount) for p in paths for mount in found[name].mounts)]
        for name in here[:1] or (mounted if len(mounted) == 1 else []):
            fastest[name] = max(fastest.get(name, (0.0, "")), (measured.bytes_per_s, measured.tool.upper()))
    for name, draft in found.items():
        if name in fastest:
            rate, tool = fastest[name]
            draft.peak = f"peak_bytes_per_s = {rate:.4g}  # the fastest phase of {tool}: {format_bytes(rate)}/s"


def _section(name: str, draft: _Draft) -> str:
    """One [filesystem.NAME] with comments."""
    key, mounts, devices = _toml_key(name), json.dumps(draft.mounts), json.dumps(draft.devices)
    lines = ["", f"[filesystem.{key}]", *([f'kind = "{draft.kind}"'] if draft.kind else [])]
    lines += [f"lustre = {json.dumps(draft.lustre)}"]
    lines += [f"mounts = {mounts}".ljust(32) + "# mount points on clients; the longest match is used"]
    lines += [f"devices = {devices}".ljust(32) + "# host:device globs of its server disks"]
    if draft.mounts:
        text = f"# probes = {json.dumps([draft.mounts[0].rstrip('/') + '/.weather'])}"
        lines += [text.ljust(32) + "# directories that agents may write to and probe"]
    lines += [draft.peak]
    lines += [f"servers.{_toml_key(server)} = {json.dumps(own)}" for server, own in sorted(draft.servers.items())]
    if draft.lustre and not draft.servers:
        lines += [f'# servers.oss001 = ["{name}-OST0000", "{name}-OST0001"]    # targets (globs) of a server']
    return "\n".join([*lines, ""])


def _patterns(disks: list[str]) -> list[str]:
    """'oss1:sda', 'oss2:sda' -> 'oss*:sda', if that catches nothing else."""
    grouped: dict[str, list[str]] = {}
    for disk in disks:
        host, _, device = disk.partition(":")
        stem = host.rstrip("0123456789")
        grouped.setdefault((stem + "*" if stem != host else host) + ":" + device, []).append(disk)
    return sorted(pattern if len(members) > 1 else members[0] for pattern, members in grouped.items())


def _toml_key(system: str) -> str:
    """The name as a key of TOML, quoted where it must be."""
    return system if re.fullmatch(r"[A-Za-z0-9_-]+", system) else f'"{system}"'


# What facility.toml does not map, in words. A mount without a file system is a remark: homes and software need none.
_UNMAPPED: Final = {
    "names": "not mapped to a file system",
    "mounts": "mount in logs, missing in `mounts`",
    "mounted_here": "mounted on this machine, missing in `mounts`",
    "targets": "target without a server",
    "servers": "server without a target in the data",
}


def check_mapping(
    facility: Facility, snapshot: Snapshot | None, mounts: Iterable[Mount] = ()
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """Compare facility.toml with the names in the lake, if there is one, and with these mounts. Returns what it says of
    each file system, and what it does not map: `names` of systems, `mounts` in logs, those `mounted_here`, `targets`
    without a server where others of their kind have one, and `servers` whose targets are not in the data."""
    systems = systems_of(snapshot) if snapshot is not None else set()
    logged = {mount.path for mount in logged_mounts(snapshot)} if snapshot is not None else set()
    here = {mount.path for mount in mounts} - logged
    parts = _parts(snapshot) if snapshot is not None else {}
    homes = servers_of(snapshot, [*parts]) if snapshot is not None else {}
    attached: dict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, (system, _) in parts.items():
        if name in homes:
            attached[facility.filesystem_of(system)].setdefault(homes[name], []).append(name)
    with_servers = {part for name, part in parts.items() if name in homes}  # systems and kinds of targets
    alone = [name for name, part in parts.items() if name not in homes and part in with_servers]
    named = {server for fs in facility.filesystems for server in fs.servers}
    idle = named - {*homes.values()} if parts else set()
    described = []
    for fs in facility.filesystems:
        own = attached.get(fs.name, {})
        names = sorted(system for system in systems if facility.filesystem_of(system) == fs.name and system != fs.name)
        described.append(
            {
                "name": fs.name,
                "kind": fs.kind,
                "names": names + [fs.name] * (fs.name in systems),
                "mounts": sorted({*fs.mounts, *(p for p in logged | here if facility.filesystem_of_path(p) is fs)}),
                "servers": len({*own, *fs.servers}),
                "targets": sum(map(len, own.values())),
                "peak_bytes_per_s": fs.peak_bytes_per_s,
                "probes": list(fs.probes),
            }
        )
    unmapped = {
        "names": [name for name in systems if not facility.is_mapped(name)],
        "mounts": [path for path in logged if facility.filesystem_of_path(path) is None],
        "mounted_here": [p for p in here if not facility.simulated and facility.filesystem_of_path(p) is None],
        "targets": alone,
        "servers": idle,
    }
    return described, {kind: sorted(names) for kind, names in unmapped.items()}


def is_whole(unmapped: Mapping[str, Sequence[str]]) -> bool:
    """Whether every system, target and server is mapped."""
    return not (unmapped["names"] or unmapped["targets"] or unmapped["servers"])


def _parts(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """System and kind of each target that has samples or is in the topology."""
    found = {component: (system, kind) for system, kind, component in _attached(snapshot) if kind in ("ost", "mdt")}
    days = {group.component_kind: group.day for group in snapshot.series() if group.component_kind in ("ost", "mdt")}
    if days:
        rows = snapshot.rows("series", {"component_kind": ("ost", "mdt")}, days={*days.values()})
        sampled = snapshot.bare.execute(f"SELECT DISTINCT component, system, component_kind FROM ({rows})").fetchall()
        found |= {component: (system, kind) for component, system, kind in sampled}
    return found


def mapping_lines(
    facility: Facility, described: Sequence[Mapping[str, Any]], unmapped: Mapping[str, Sequence[str]], *, has_lake: bool
) -> Iterator[str]:
    """Say what is mapped, and what is not."""
    names = ", ".join(each["name"] for each in described) or "no file system"
    yield f"{facility.name}: {names}; project rules: {len(facility.projects)}; zone {facility.zone or 'not set'}."
    for each in described:
        parts = [each["kind"] or "kind not set"]
        parts.append(f"mounts {', '.join(each['mounts'])}" if each["mounts"] else "no mounts")
        if each["servers"]:
            parts.append(f"{each['targets']} targets on {each['servers']} servers")
        if each["peak_bytes_per_s"]:
            parts.append(f"peak {format_bytes(each['peak_bytes_per_s'])}/s")
        if each["probes"]:
            parts.append(f"probed at {', '.join(each['probes'])}")
        yield f"  {each['name']}: {'; '.join(parts)}"
    for kind, words in _UNMAPPED.items():
        yield from (f"  {words}: {name}" for name in unmapped[kind])
    if is_whole(unmapped):
        yield "Every name in the data is mapped." if has_lake else "The file is correct. There are no data yet."
