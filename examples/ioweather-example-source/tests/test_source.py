from ioweather_example_source import SOURCE

from ioweather.testing import check_source


def fsmon_lines(samples: int) -> bytes:
    """Two nodes, a sample every five seconds."""
    return b"".join(
        b"fsmon %d scratch node%d %d %d\n" % (1_700_000_000 + 5 * i, node, 6_291_456 * i * node, 1_048_576 * i)
        for i in range(samples)
        for node in (1, 2)
    )


def test_the_source_does_what_every_source_must(tmp_path):
    sample = tmp_path / "fsmon.log"
    sample.write_bytes(fsmon_lines(20))
    check_source(SOURCE, [sample])


def test_amounts(tmp_path):
    sample = tmp_path / "fsmon.log"
    sample.write_bytes(fsmon_lines(3))
    ((table, frame),) = SOURCE.read(sample, None)
    assert table == "series"
    assert frame.rows == 8
    assert sorted(set(frame.floats("value"))) == [1_048_576.0, 6_291_456.0, 12_582_912.0]
