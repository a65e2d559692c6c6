"""Every printed value stands in a row with what is here, or says that nothing is."""

from __future__ import annotations

from ioweather.core.papers import document, exhibits, published
from ioweather.core.papers.claims import compare, comparison_table
from ioweather.core.results import Estimate, Exhibit, Published, ResultColumn, ResultTable, result_json


def exhibit(*printed: Published, estimates: tuple[Estimate, ...] = (), tables: tuple[ResultTable, ...] = ()) -> Exhibit:
    return Exhibit("mad17.table3", estimates=estimates, tables=tables, published=printed)


def test_one_estimate_with_its_interval() -> None:
    printed = Published("x", "mean", 10.0, "seconds")
    (found,) = compare(exhibit(printed, estimates=(Estimate("mean", 12.0, "seconds", 9.0, 14.0, 0.9, 5),)))
    assert (found.value, found.bounds, found.holds) == (12.0, (9.0, 14.0), True)
    table = comparison_table(exhibit(printed, estimates=(Estimate("mean", 12.0, "seconds", 11.0, 14.0, 0.9, 5),)))
    assert table is not None
    assert table.rows[0][1:6] == ("10 s", "12 s", "11 s to 14 s", "1.2x", "no")


def test_a_row_of_the_paper_beside_all_groups_here() -> None:
    printed = Published("x", "spearman_read[ESB]", 0.42)
    ours = tuple(Estimate(f"spearman_read[{name}]", value) for name, value in (("a", 0.1), ("b", 0.5), ("c", None)))
    total = Estimate("spearman_read", 9.0)  # of no group: it is another thing
    (found,) = compare(exhibit(printed, estimates=(*ours, total)))
    assert (found.value, found.bounds, found.holds, len(found.ours)) == (0.3, (0.1, 0.5), True, 3)


def test_a_column_of_a_table_and_words() -> None:
    columns = (ResultColumn("job", "", "text"), ResultColumn("per_node"), ResultColumn("key_access", "", "text"))
    table = ResultTable("jobs", columns, (("A", 1.0, "4 B"), ("B", 3.0, "4 B")))
    others = ResultTable("servers", columns[:2], (("A", 70.0),))
    numbers, words = compare(exhibit(
        Published("x", "per_node[F]", 2.0), Published("x", "key_access[F]", "4 B (r)", "text"), tables=(table, others)
    ))  # fmt: skip
    assert (numbers.value, numbers.holds, len(numbers.ours)) == (2.0, True, 2)
    assert words.words == ("4 B", "4 B")


def test_what_is_not_here_and_thresholds_say_so() -> None:
    clusters = Estimate("clusters_read[>=10]", 5.0, "count")
    missing, threshold = compare(exhibit(
        Published("x", "nothing", 1.0), Published("x", "clusters_read[>=25]", 7, "count"), estimates=(clusters,)
    ))  # fmt: skip
    assert missing.ours == threshold.ours == ()
    table = comparison_table(exhibit(Published("x", "nothing", 1.0)))
    assert table is not None
    assert table.rows[0][2] == "not here"
    assert comparison_table(exhibit()) is None


def test_other_names_are_of_printed_quantities() -> None:
    for entry in exhibits():
        block = next(b for b in document(entry.paper)["exhibit"] if b["id"] == entry.id)
        printed = {value.quantity for value in published(entry.id)}
        printed |= {name.partition("[")[0] for name in printed}
        assert set(block.get("beside", {})) <= printed, entry.id


def test_programs_get_it_too() -> None:
    body = result_json(exhibit(Published("x", "mean", 10.0, "seconds")))
    assert body["comparison"]["rows"][0][0] == "mean"
