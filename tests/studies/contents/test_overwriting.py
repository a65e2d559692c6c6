"""Written files that were new or empty before."""

from __future__ import annotations

from planted_jobs import cells, estimate, exhibits, planted


def test_sizes_at_open_where_they_are_and_the_proxy_where_not() -> None:
    old = {"write_only_file_count": 900, "read_write_file_count": 100, "size_known_file_count": 1000,
           "new_or_empty_file_count": 993, "create_count": 993, "create_rule": "size_at_open"}  # fmt: skip
    new = {"write_only_file_count": 10, "create_count": 5, "create_rule": "written_whole"}
    made = exhibits("overwriting", planted([old, new]))["car11.overwrite"]
    assert estimate(made, "files_written").value == 1010
    share = estimate(made, "new_or_empty_ratio")
    assert (share.value, share.n) == (0.993, 1000)
    assert estimate(made, "proxy_created_ratio").value == 0.5
    assert made.coverage[0].excluded == {"size at open not recorded": 10}
    assert [row["ratio"] for row in cells(made)] == [0.993, 0.5]
    assert "were new or empty" in made.findings[1].text


def test_darshan_3_alone_is_undecided() -> None:
    made = exhibits("overwriting", planted([{"write_only_file_count": 1, "create_rule": "written_whole"}]))[
        "car11.overwrite"
    ]
    assert estimate(made, "new_or_empty_ratio").value is None
    assert made.findings[1].kind == "undecided"


def test_nothing_written() -> None:
    made = exhibits("overwriting", planted([{"read": 1}]))["car11.overwrite"]
    assert estimate(made, "files_written").value == 0
