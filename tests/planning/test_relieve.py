"""The fewest files that bring a target to the mean, against every choice there is."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ioweather.planning.relieve import FileThere, choose_destinations, choose_fewest


def one_by_one(amounts, wanted):
    """(how many, how much) of the best of all subsets: the fewest, and of these the least."""
    for count in range(len(amounts) + 1):
        sums = [sum(chosen) for chosen in combinations(amounts, count) if sum(chosen) >= wanted]
        if sums:
            return count, min(sums)
    return None


def test_fewest_is_as_few_as_any_choice():
    rng = np.random.default_rng(3)
    for _ in range(200):
        amounts = np.rint(np.exp(rng.uniform(0, 6, rng.integers(1, 9)))) + 1
        wanted = rng.uniform(1, amounts.sum() * 1.1)
        chosen = choose_fewest(amounts, wanted)
        assert len(set(chosen.tolist())) == len(chosen)
        best = one_by_one(amounts.tolist(), wanted)
        if best is None:
            assert len(chosen) == len(amounts)
        else:
            assert len(chosen) == best[0]
            assert amounts[chosen].sum() >= wanted


def test_the_last_file_is_the_smallest_that_is_enough():
    assert choose_fewest(np.array([100.0, 90.0, 40.0, 20.0]), 115.0).tolist() == [0, 3]
    assert choose_fewest(np.array([5.0, 5.0]), 0.0).tolist() == []
    assert choose_fewest(np.zeros(0), 3.0).tolist() == []


def file(path, there, *stripes, parts=1):
    osts = ",".join(map(str, stripes)) + ";9" * (parts - 1)
    return FileThere(path, there, None, 1, None, osts)


def moved(amount, *files):
    names = [f"s-OST{i:04x}" for i in range(len(amount))]
    return choose_destinations("s-OST0000", names, np.array(amount), files)


def test_files_go_to_the_target_that_moves_least_counting_earlier_files():
    files = [file("/a", 150.0, 0), file("/b", 10.0, 0), file("/c", 5.0, 0, 2), file("/d", 1.0, 1, 0)]
    assert moved([900.0, 400.0, 300.0, 800.0], *files) == [[2], [1], [1, 2], [1, 2]]


def test_a_file_on_all_targets_or_with_several_parts_has_no_place():
    assert moved([900.0, 400.0], file("/a", 9.0, 0, 1), file("/b", 9.0, 0, parts=2)) == [None, None]
