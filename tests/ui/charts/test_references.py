"""References: lines where they belong, labels that do not cover each other."""

from __future__ import annotations

from ioweather.core.results import Reference
from ioweather.ui.charts.axes import Axis, mark_references
from ioweather.ui.charts.theme import text_px

X = Axis("x", "number", 0, 100)
Y = Axis("y", "number", 0, 10)


def texts(layers: list[dict[str, object]]) -> list[tuple[str, float, float]]:
    return [
        (layer["mark"]["text"], layer["encoding"]["x"]["value"], layer["encoding"]["y"]["value"])  # type: ignore[index]
        for layer in layers
        if layer["mark"]["type"] == "text" and "stroke" not in layer["mark"]  # type: ignore[index,operator]
    ]


def test_a_line_and_a_stretch_lie_at_their_values() -> None:
    below, above, *_ = mark_references([Reference("x", 25, "start", 50), Reference("y", 5, "half")], X, Y, 400, 200)
    (shade,), line = below, above[0]
    assert (shade["encoding"]["x"]["value"], shade["encoding"]["x2"]["value"]) == (100, 200)
    assert line["encoding"]["y"]["value"] == 100
    assert line["encoding"]["x2"]["value"] == 400


def test_outside_the_axis_is_not_drawn_and_a_part_is_cut() -> None:
    below, above, *_ = mark_references(
        [Reference("x", -50, "before", -10), Reference("x", 90, "tail", 500)], X, Y, 400, 200
    )
    assert len(below) == 1
    assert below[0]["encoding"]["x2"]["value"] == 400
    assert [text for text, _, _ in texts(above)] == ["tail"]


def test_labels_on_top_do_not_overlap() -> None:
    references = [Reference("x", value, f"window number {value}") for value in (40, 42, 44, 80)]
    _, above, _, rows = mark_references(references, X, Y, 400, 200)
    placed = texts(above)
    assert len({y for _, _, y in placed}) == 3
    for i, (text, x, y) in enumerate(placed):
        for other, x2, y2 in placed[i + 1 :]:
            assert y != y2 or abs(x - x2) > (len(text) + len(other)) * 6.16 / 2
    assert rows == 3


def test_what_finds_no_place_is_named_below_the_title() -> None:
    references = [Reference("x", 50 + i / 10, f"a long label of event {i}") for i in range(9)]
    _, _, (note,), _ = mark_references(references, X, Y, 300, 200)
    assert note.startswith("also marked: a long label of event")


def test_a_label_wider_than_the_plot_is_cut_and_stays_whole_in_its_tooltip() -> None:
    long = "OST0007 worked at 36% of its usual ceiling and never above, while others did"
    below, above, *_ = mark_references([Reference("x", 25, long, 50)], X, Y, 200, 200)
    ((text, centre, _),) = texts(above)
    assert text.endswith(" …")
    assert centre - text_px(text) / 2 >= 0
    assert centre + text_px(text) / 2 <= 200
    assert below[0]["mark"]["tooltip"] == long


def test_a_line_without_a_name_at_the_end_of_its_axis_is_not_drawn() -> None:
    _, above, *_ = mark_references([Reference("y", Y.low)], X, Y, 400, 200)
    assert above == []
