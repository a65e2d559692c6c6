"""facility.toml of a simulated facility."""

from __future__ import annotations

import json

from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import Resources


def facility_toml(preset: Preset, *filesystems: Resources) -> str:
    """`filesystems` are those of the preset, in its order."""
    sections = [_section(*each) for each in zip(preset.filesystems, filesystems, strict=True)]
    return f"""# Made by ioweather simulate: nothing here was ever measured.
name = "{preset.name} (simulated)"
zone = "{preset.zone}"
simulated = true
clusters = ["{preset.cluster or preset.fsname}"]
source_order = ["tts", "h5lmt", "lmt", "iostat"]
node_limit_bytes_per_s = {preset.node_bytes_per_s:.6g}
node_cores = {preset.cores}
{"".join(sections)}"""


def _section(preset: Preset, resources: Resources) -> str:
    peak = float(resources.capacity[: resources.osts].sum())
    peak = min(peak, float(resources.capacity[resources.network]))
    servers = "\n".join(
        f"servers.{resources.oss_name(server)} = {json.dumps(targets)}"
        for server in range(resources.servers)
        if (targets := [resources.ost_name(ost) for ost in range(resources.osts) if resources.server_of[ost] == server])
    )
    # Text of devices is there for the first file system only.
    devices = 'devices = ["oss*:sd*"]\n' if preset.detail_day is not None else ""
    return f"""
[filesystem.{preset.fsname}]
lustre = ["{preset.fsname}"]
mounts = ["/{preset.fsname}"]
{devices}probes = ["/{preset.fsname}/.ioweather", "/{preset.fsname}/.samples"]
peak_bytes_per_s = {peak:.6g}
component_limit_bytes_per_s = {preset.ost_bytes_per_s * 1.05:.6g}
{servers}
"""
