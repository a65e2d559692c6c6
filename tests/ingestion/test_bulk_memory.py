"""A writer has bounded memory."""

from __future__ import annotations

from ioweather.lake.database import WRITER_MEMORY, connection


def test_a_writer_has_a_memory_limit_and_a_place_for_what_does_not_fit() -> None:
    with connection(WRITER_MEMORY) as con:
        limit, place = con.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchall()[0]
    assert (limit, "ioweather-" in place) == ("512.0 MiB", True)
