"""Chunks that are inflated here hold what HDF5 reads."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from ioweather.core.errors import CorruptInput
from ioweather.sources.lmt import archive

VALUES = np.random.default_rng(1).integers(0, 1000, (23, 17))
STORED = {
    "deflated": {"chunks": (5, 4), "compression": "gzip"},
    "one chunk": {"chunks": (23, 17), "compression": "gzip", "compression_opts": 9},
    "shuffled": {"chunks": (5, 4), "compression": "gzip", "shuffle": True},
    "summed": {"chunks": (5, 4), "compression": "gzip", "fletcher32": True},
    "not deflated": {"chunks": (5, 4)},
    "in one piece": {},
}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i8", ">u2"])
def test_every_way_to_store(tmp_path, stored, kind):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        dataset = file.create_dataset("a", data=VALUES.astype(kind), **STORED[stored])
        for first, end in ((0, None), (0, 23), (3, 4), (4, 11), (22, 40), (7, 7), (23, 30)):
            found = archive.rows_of(dataset, first, end)
            np.testing.assert_array_equal(found, VALUES.astype(kind)[first:end])
            assert found.dtype == dataset.dtype


def test_chunks_that_were_never_written_have_the_fill_value(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        dataset = file.create_dataset("a", (20, 8), "f8", chunks=(5, 4), compression="gzip", fillvalue=-7.0)
        dataset[6:9] = 1.0
        expected = np.full((20, 8), -7.0)
        expected[6:9] = 1.0
        np.testing.assert_array_equal(archive.rows_of(dataset), expected)


def test_a_chunk_without_its_filter_is_left_to_hdf5(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        dataset = file.create_dataset("a", data=VALUES[:5, :4].astype("f8"), chunks=(5, 4), compression="gzip")
        plain = np.arange(20.0).reshape(5, 4)
        dataset.id.write_direct_chunk((0, 0), plain.tobytes(), filter_mask=1)
    with h5py.File(tmp_path / "a.hdf5") as file:
        dataset = file["a"]
        np.testing.assert_array_equal(archive.rows_of(dataset), plain)


@pytest.mark.parametrize("damage", ["overwritten", "short", "too long"])
def test_a_damaged_chunk_is_what_hdf5_complains_about(tmp_path, damage):
    import zlib

    path = tmp_path / "a.hdf5"
    chunk = {"overwritten": b"\xff" * 50, "short": zlib.compress(bytes(80)), "too long": zlib.compress(bytes(800))}
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("a", data=VALUES[:5, :4].astype("f8"), chunks=(5, 4), compression="gzip")
        dataset.id.write_direct_chunk((0, 0), chunk[damage])
    with archive.open_archive(path) as file:
        try:
            expected = file["a"][:]
        except OSError:
            expected = None
    if expected is None:
        with pytest.raises(CorruptInput, match="HDF5 cannot read"), archive.open_archive(path) as file:
            archive.rows_of(file["a"])
    else:  # HDF5 takes more than a chunk holds, and pads less with what is there
        with archive.open_archive(path) as file:
            assert archive.rows_of(file["a"]).shape == expected.shape
