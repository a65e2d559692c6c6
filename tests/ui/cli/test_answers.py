"""The short screen: what was asked, without lines that say nothing."""

from __future__ import annotations

from ioweather.core.results import Fact, FactGroup, largest


def test_bars_of_nothing_and_lines_about_others_are_left_to_the_full_screen() -> None:
    split = FactGroup("split", "Where the time went", (
        Fact("usual", "as usual", 40.0, "seconds", share=0.2),
        Fact("system", "the system", 160.0, "seconds", share=0.799),
        Fact("own", "what it did differently", 0.0, "seconds", share=0.0),
        Fact("unexplained", "unexplained", 0.2, "seconds", share=0.001),
    ))  # fmt: skip
    advice = FactGroup("advice", "Worth changing", (
        Fact("small", "small requests", 9.0, "seconds"), Fact("small_interval", "", ""), Fact("small_fix_1", "", ""),
        Fact("advice_how", "before, after", ""),
    ))  # fmt: skip
    assert [fact.name for fact in largest(split, 4).facts] == ["usual", "system", "unexplained"]
    assert [fact.name for fact in largest(advice, 3).facts] == ["small", "small_fix_1"]


def test_the_rows_that_carry_the_time_stay_and_what_is_cut_is_counted() -> None:
    sizes = [Fact(f"size_{n}", f"{n}", n, "count", share=n / 103_151) for n in (2_544, 2_795, 97_812)]
    accesses = FactGroup(
        "accesses", "Access sizes", (*sizes, Fact("sequential", "sequential", 0.1, "ratio", share=0.1))
    )
    speed = FactGroup("speed", "Speed", (
        Fact("read", "read", 15.9e9, "bytes_per_s", share=1.0),
        Fact("write", "write", 78.5e6, "bytes_per_s", share=0.0048),
    ))  # fmt: skip
    assert [fact.name for fact in largest(speed, 2).facts] == ["read", "write"]
    found = largest(accesses, 2)
    assert [fact.name for fact in found.facts] == ["size_97812", "sequential", "more_rows"]
    assert found.facts[-1].label == "+2 smaller rows"
