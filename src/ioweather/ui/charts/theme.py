"""Colours, fonts and the Vega-Lite configuration.

Charts are drawn in the light colours. `DARK` has the partner of each colour: where a page is dark, its style sheet
exchanges them, so that one drawing serves both.

Series colours begin with blue (reads) and gold (writes); the fifth, purple, is what the page is about, the sixth,
crimson, is what is wrong, and the last, grey, is what it is compared with. They were chosen so that every pair stays
apart (CIE76 distance > 13) in normal vision and under simulated protanopia, deuteranopia and tritanopia (Machado et
al. 2009), and stands out from the background by at least 3:1.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from string import Template
from typing import Any, Final, TypeAlias

Spec: TypeAlias = dict[str, Any]

LABEL_SIZE: Final = 11  # sizes in pixels, as in config.json
TITLE_SIZE: Final = 14

BACKGROUND: Final = "#ffffff"
INK: Final = "#1f2328"
SECONDARY: Final = "#57606a"
GRID: Final = "#e3e6ea"
AXIS: Final = "#8b949e"
NEUTRAL: Final = "#99a1aa"
SHADE: Final = "#768390"
REFERENCE: Final = "#424a53"

_SERIES_LIGHT: Final = ("#2a78c5", "#b67700", "#454202", "#822b60", "#4a1080", "#b3202f", "#7428f7", "#8b8f96")
_SERIES_DARK: Final = ("#4b9fee", "#e2b04a", "#97f2c4", "#9a751f", "#d9b8ff", "#ff5c69", "#e3e807", "#7b8692")
_BACKGROUND_DARK: Final = "#161c23"


def _mixed(colour: str, other: str, share: float) -> str:
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in pairs)


# A second round of the same hues, paler; lines are dashed there and points have another shape.
SERIES: Final = _SERIES_LIGHT + tuple(_mixed(c, BACKGROUND, 0.55) for c in _SERIES_LIGHT)
HUES: Final = len(_SERIES_LIGHT)

DARK: Final[dict[str, str]] = {
    BACKGROUND: _BACKGROUND_DARK,
    INK: "#e6e9ee",
    SECONDARY: "#a6b0bb",
    GRID: "#2b323b",
    AXIS: "#6d7885",
    NEUTRAL: "#7b8692",
    SHADE: "#8b98a6",
    REFERENCE: "#c3cad3",
    **dict(zip(SERIES, _SERIES_DARK + tuple(_mixed(c, _BACKGROUND_DARK, 0.55) for c in _SERIES_DARK), strict=True)),
}

# Cells bring their own background, so these are the same on dark pages.
SEQUENTIAL: Final = "viridis"
DIVERGING: Final = ("#2166ac", "#92c5de", "#f6f6f4", "#f4a582", "#b2332b")
CELL_INK: Final = "#111417"
CELL_PAPER: Final = "#fcfcfb"


_COLOURS: Final = {"BACKGROUND": BACKGROUND, "INK": INK, "SECONDARY": SECONDARY, "GRID": GRID, "AXIS": AXIS}
_CONFIG: Final = Path(__file__).with_name("config.json").read_text("utf-8")


def config() -> Spec:
    """The Vega-Lite configuration of all charts. No aria label per mark: a picture has one
    description, and labels would double the size of a drawing."""
    found: Spec = json.loads(Template(_CONFIG).substitute(_COLOURS))
    return found


def text_px(text: str, size: float = LABEL_SIZE, *, bold: bool = False) -> float:
    """A safe guess of a text's width: wider than Arial and Liberation Sans, narrower than DejaVu Sans."""
    return len(text) * size * (0.6 if bold else 0.56)


def wrapped(text: str, width: float, size: float, *, bold: bool = False, most: int = 3) -> str | list[str]:
    """Lines that fit into `width` pixels; a text of more than `most` lines ends in an ellipsis."""
    characters = max(int(width / text_px("x", size, bold=bold)), 8)
    lines = textwrap.wrap(text, characters, max_lines=most, placeholder=" …")
    return lines if len(lines) > 1 else "".join(lines)
