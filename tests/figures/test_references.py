"""References: lines where they belong, labels that do not cover each other."""

from __future__ import annotations

import numpy as np

from ioweather.core.results import Reference
from ioweather.figures.axes import Axis, text_px
from ioweather.figures.references import flipped, label_rows, limits, mark

X = Axis("x", "number", 0, 100)
Y = Axis("y", "number", 0, 10)
NOWHERE = np.zeros((0, 2))


def texts(layers: list[dict[str, object]]) -> list[tuple[str, float, float]]:
    return [
        (layer["mark"]["text"], layer["encoding"]["x"]["value"], layer["encoding"]["y"]["value"])  # type: ignore[index]
        for layer in layers
        if layer["mark"]["type"] == "text" and "stroke" not in layer["mark"]  # type: ignore[index,operator]
    ]


def test_a_line_and_a_stretch_lie_at_their_values() -> None:
    marked = mark([Reference("x", 25, "start", 50), Reference("y", 5, "half")], X, Y, 400, 200, NOWHERE)
    (shade,), line = marked.below, marked.above[0]
    assert (shade["encoding"]["x"]["value"], shade["encoding"]["x2"]["value"]) == (100, 200)
    assert line["encoding"]["y"]["value"] == 100
    assert line["encoding"]["x2"]["value"] == 400


def test_outside_the_axis_is_not_drawn_and_a_part_is_cut() -> None:
    marked = mark([Reference("x", -50, "before", -10), Reference("x", 90, "tail", 500)], X, Y, 400, 200, NOWHERE)
    assert len(marked.below) == 1
    assert marked.below[0]["encoding"]["x2"]["value"] == 400
    assert [text for text, _, _ in texts(marked.above)] == ["tail"]


def test_a_short_window_still_shows() -> None:
    (shade,) = mark([Reference("x", 50, "", 50.001)], X, Y, 400, 200, NOWHERE).below
    assert shade["encoding"]["x2"]["value"] - shade["encoding"]["x"]["value"] >= 1.4


def test_labels_on_top_do_not_overlap() -> None:
    references = [Reference("x", value, f"window number {value}") for value in (40, 42, 44, 80)]
    placed = texts(mark(references, X, Y, 400, 200, NOWHERE).above)
    assert len({y for _, _, y in placed}) == 3
    for i, (text, x, y) in enumerate(placed):
        for other, x2, y2 in placed[i + 1 :]:
            assert y != y2 or abs(x - x2) > (len(text) + len(other)) * 6.16 / 2
    assert label_rows(references, X, 400) == 3


def test_a_repeated_label_is_dropped_where_it_would_collide() -> None:
    references = [Reference("x", value, "maintenance", value + 0.5) for value in (10, 12, 14, 90)]
    assert len(texts(mark(references, X, Y, 400, 200, NOWHERE).above)) == 2
    assert label_rows(references, X, 400) == 1


def test_what_finds_no_place_is_named_below_the_title() -> None:
    references = [Reference("x", 50 + i / 10, f"a long label of event {i}") for i in range(6)]
    (note,) = mark(references, X, Y, 300, 200, NOWHERE).notes
    assert note.startswith("also marked: a long label of event")


def test_the_label_of_a_line_avoids_the_data() -> None:
    line = [Reference("y", 5, "limit")]
    right = texts(mark(line, X, Y, 400, 200, NOWHERE).above)[0]
    assert right[1] > 200
    crowd = np.column_stack([np.linspace(350, 399, 50), np.full(50, 92.0)])
    assert texts(mark(line, X, Y, 400, 200, crowd).above)[0][1] < 200


def test_times_are_nanoseconds_in_references_and_milliseconds_on_axes() -> None:
    axis = Axis("t", "time", 1.7e12, 1.7e12 + 1000, "time_ns")
    marked = mark([Reference("x", (1.7e12 + 500) * 1e6, "now")], axis, Y, 400, 200, NOWHERE)
    assert marked.above[0]["encoding"]["x"]["value"] == 200


def test_lines_stretch_numbers_but_not_times() -> None:
    references = [Reference("y", 99), Reference("y", 1, "", 2), Reference("x", 5)]
    assert limits(references, "y", is_time=False).tolist() == [99]
    assert limits(references, "x", is_time=True).tolist() == []


def test_a_value_on_an_axis_of_names_becomes_a_note() -> None:
    names = Axis("p", "names", names=("a", "b"))
    assert mark([Reference("x", 3, "limit")], names, Y, 400, 200, NOWHERE).notes == ("limit: 3",)


def test_flipping_exchanges_the_axes() -> None:
    assert [r.axis for r in flipped([Reference("x", 1), Reference("y", 2)])] == ["y", "x"]


def test_a_label_wider_than_the_plot_is_cut_and_stays_whole_in_its_tooltip() -> None:
    long = "OST0007 worked at 36% of its usual ceiling and never above, while others did"
    marked = mark([Reference("x", 25, long, 50)], X, Y, 200, 200, NOWHERE)
    ((text, centre, _),) = texts(marked.above)
    assert text.endswith(" …")
    assert centre - text_px(text) / 2 >= 0
    assert centre + text_px(text) / 2 <= 200
    assert marked.below[0]["mark"]["tooltip"] == long
