"""A verdict as plain text: one line for a scheduler's comment or a mail, and one block for a terminal. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ioweather.core.printable import one_line
from ioweather.core.run_outcomes import AdviceItem, Amount, WhyOutcome
from ioweather.core.units import format_seconds

_WIDTH: Final = 80
_BAR: Final = 36
_PARTS: Final = {
    "usual": "as usual", "system": "the system", "own": "its own change", "unexplained": "unexplained",
}  # fmt: skip
# What a scheduler takes as a comment without trouble.
_LONGEST_LINE: Final = 500


@dataclass(frozen=True)
class JobText:
    """`job` is the id as people know it; `when` says as of which time it was judged."""

    job: str
    headline: str
    outcome: WhyOutcome
    when: str

    def line(self) -> str:
        """Headline with its probability, and what to change first."""
        advice = f" Worth changing: {_advice(self.outcome.worth[0])}." if self.outcome.worth else ""
        text = one_line(f"{self.headline}{advice} (ioweather, {self.when})")
        return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."

    def block(self) -> str:
        return "\n".join(one_line(line) for line in self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        rule = "=" * _WIDTH
        yield from (rule, f"I/O of job {self.job}".center(_WIDTH).rstrip(), rule)
        yield from textwrap.wrap(self.headline, _WIDTH)
        bars = list(self._bars())
        yield from ("", *bars) if bars else ()
        if self.outcome.worth:
            yield from ("", "Worth changing (each alone)")
            for item in self.outcome.worth[:3]:
                yield from textwrap.wrap(_advice(item), _WIDTH, initial_indent="  * ", subsequent_indent="    ")
        compared = f"{self.outcome.n} similar runs" if self.outcome.n else "no similar runs"
        when = self.when.removeprefix("judged ")
        yield from ("", f"Compared with {compared}; judged {when}.", f"More: ioweather why {self.job}", rule)

    def _bars(self) -> Iterator[str]:
        took = self.outcome.io_seconds
        for name, label in _PARTS.items() if took else ():
            part: Amount | None = getattr(self.outcome.seconds, name)
            if took and part is not None and part.value is not None:
                yield _bar(label, max(0.0, min(part.value, took)), took)


def _advice(item: AdviceItem) -> str:
    """Such as: small requests (39.2 s): read(fd, buffer, 4 << 20) instead of each piece."""
    how = f": {item.fix[0].rstrip('.')}" if item.fix else ""
    seconds = format_seconds(item.seconds) if item.seconds > 0 else f"up to {format_seconds(item.high)}"
    return f"{item.name.replace('_', ' ')} ({seconds}){how}"


def _bar(label: str, seconds: float, whole: float) -> str:
    share = seconds / whole
    filled = "|" * round(share * _BAR)
    return f"  {label:<15} {format_seconds(seconds):>10}  [{filled:<{_BAR}} {share:4.0%}]"
