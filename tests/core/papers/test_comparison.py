"""A printed value stands beside the same quantity here, and beside nothing else."""

from __future__ import annotations

from ioweather.core.papers.claim_tests import comparison_table, match_published
from ioweather.core.results import Estimate, Exhibit, Published, result_json


def exhibit(*printed: Published, estimates: tuple[Estimate, ...] = ()) -> Exhibit:
    return Exhibit("mad17.table3", estimates=estimates, published=printed)


def test_one_estimate_with_its_interval() -> None:
    printed = Published("x", "mean", 10.0, "seconds")
    inside = comparison_table(exhibit(printed, estimates=(Estimate("mean", 12.0, "seconds", 9.0, 14.0, 0.9, 5),)))
    assert inside is not None
    assert inside.rows[0][5] == "yes"
    table = comparison_table(exhibit(printed, estimates=(Estimate("mean", 12.0, "seconds", 11.0, 14.0, 0.9, 5),)))
    assert table is not None
    assert table.rows[0][1:6] == ("10 s", "12 s", "11 s to 14 s", "1.2x", "no")


def test_a_project_or_group_of_the_paper_has_no_counterpart_here() -> None:
    printed = Published("x", "spearman_read[ESB]", 0.42), Published("x", "clusters_read[>=25]", 7, "count")
    ours = Estimate("spearman_read[a]", 0.1), Estimate("spearman_read", 9.0), Estimate("clusters_read[>=10]", 5.0)
    assert match_published(exhibit(*printed, estimates=ours)) == ()
    assert comparison_table(exhibit(*printed, estimates=ours)) is None
    ((_, same),) = match_published(exhibit(*printed, estimates=(Estimate("clusters_read[>=25]", 5.0, "count"),)))
    assert same.value == 5.0


def test_programs_get_it_too() -> None:
    body = result_json(exhibit(Published("x", "mean", 10.0, "seconds"), estimates=(Estimate("mean", 9.0, "seconds"),)))
    assert body["comparison"]["rows"][0][0] == "mean"
