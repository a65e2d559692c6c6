"""A number as a paper prints it ('>75%', '31.7 GiB/s', '~57,000') turned into the units of the house.

The files beside this one hold what is on paper, so that they can be checked against it by eye; the arithmetic is
here, exact until the last step.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ioweather.core.units import GIB, KIB, MIB, PIB, TIB

# Words for the marks before a number; a note begins with them, so that a bound stays a bound.
BOUNDS: Final = {">": "more than", "<": "less than", ">=": "at least", "<=": "at most", "~": "about"}

_MINUTE: Final = 60
# Unit of the house -> printed units and what one of each is there.
_FACTORS: Final[dict[str, dict[str, Fraction | int]]] = {
    "": {"": 1, "TFlops": 1, "PF": 1},
    "count": {"n": 1, "k": 10**3, "M": 10**6, "billion": 10**9},
    "bytes": {
        "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "PiB": PIB,
        "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    },
    "bytes_per_s": {
        "MiB/s": MIB, "GiB/s": GIB, "GiB/min": Fraction(GIB, _MINUTE), "MB/s": 10**6, "GB/s": 10**9,
        "GbE": Fraction(10**9, 8),
    },
    "mib_per_s_per_node": {"MiB/s/CN": 1},
    "ops_per_s": {"op/s": 1, "k/min": Fraction(10**3, _MINUTE), "M/min": Fraction(10**6, _MINUTE)},
    "seconds": {"ms": Fraction(1, 1000), "s": 1, "min": _MINUTE, "h": 3600, "d": 86_400},
    "ratio": {"%": Fraction(1, 100)},
    "factor": {"x": 1},
}  # fmt: skip
_UNITS: Final = {
    printed: (unit, Fraction(factor)) for unit, factors in _FACTORS.items() for printed, factor in factors.items()
}
_PRINTED: Final = re.compile(
    r"^(?P<bound>>=|<=|[<>~])?\s*(?P<number>[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>\S.*)?$"
)


@dataclass(frozen=True)
class Printed:
    """`bound` is one of the keys of BOUNDS, or empty; `scaled` tells that `value` differs from the printed digits."""

    value: int | float
    unit: str
    bound: str
    scaled: bool


def parse_printed(text: str, default_unit: str = "n") -> Printed:
    """The value of a printed number in the units of the house. A bare number has the printed unit `default_unit`."""
    match = _PRINTED.match(text.strip())
    if match is None or (match["unit"] or default_unit) not in _UNITS:
        raise ValueError(f"{text!r} is not a number with a known unit")
    unit, factor = _UNITS[match["unit"] or default_unit]
    exact = Fraction(match["number"].replace(",", "")) * factor
    whole = exact.denominator == 1 and unit in ("count", "bytes")
    return Printed(int(exact) if whole else float(exact), unit, match["bound"] or "", factor != 1)
