"""A file for every sample: opening it takes longer than reading it."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    packed,
)
from ioweather.advice.advisor.metadata_costs import opening_seconds
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB, format_bytes

FEWEST_FILES: Final = 100
SMALL_SHARE: Final = 0.5
SHARD_BYTES: Final = 64 * MIB


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    moved = records.per_file(profile.ints("read_bytes") + profile.ints("write_bytes"), profile.counted)
    processes = records.per_file(np.where(profile.counted, profile.first_opens, 0))
    # Small by what one process moves: a file that is read again in every epoch stays small.
    ends = np.maximum(profile.ints("read_extent_bytes"), profile.ints("write_extent_bytes"))
    extent = records.per_file(ends, profile.counted)
    size = np.where(extent > 0, ratio(extent, np.maximum(processes, 1)), moved)
    data = moved > 0
    small = data & (size < MIB)
    count = int(small.sum())
    if count < FEWEST_FILES or count < SMALL_SHARE * int(data.sum()):
        return None
    shards = math.ceil(float(size[small].sum()) / SHARD_BYTES) * max(1, profile.io_ranks)
    keep = min(1.0, shards / count)
    rows = profile.counted & small[records.file]
    saved = np.where(rows, opening_seconds(profile) * (1.0 - keep), 0.0)
    least = "at least " if profile.incomplete else ""
    evidence = f"{least}{count:,} files under 1 MiB, {format_bytes(float(size[small].mean()))} on average"
    return Seen(evidence, profile.saving(saved), packed(profile))


RULE = Rule(
    name="small_files",
    headline="small files",
    dimension="metadata",
    part="metadata",
    trigger="100 files or more with under 1 MiB each, half or more of those with data",
    model="metadata time of first opens, if they lay in shards of 64 MiB that each process opens once",
    sources=("DLIO (Devarajan et al. 2021)", "WebDataset manual: sharding", "PyTorch manual: data loading"),
    before=(
        "class Samples(Dataset):\n"
        "    def __getitem__(self, i):\n"
        "        return decode(open(f'{folder}/{i}.jpg', 'rb').read())"
    ),
    after=(
        "import webdataset\n"
        "samples = webdataset.WebDataset('shard-{0000..0099}.tar').shuffle(1000).decode('rgb')\n"
        "loader = DataLoader(samples, batch_size=64, num_workers=8, prefetch_factor=4, persistent_workers=True)"
    ),
    look=_look,
)
