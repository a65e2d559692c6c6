"""Names written as one text."""

from ioweather.core.words import names_of, pairs_of


def test_names_and_pairs_of_a_text():
    assert names_of("a b_c\n  d-e\n") == ("a", "b_c", "d-e")
    assert pairs_of("READ=read_ops\n F_TIME=a=b") == {"READ": "read_ops", "F_TIME": "a=b"}
