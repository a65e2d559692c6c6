"""What every source of labelled samples does with them: ask the mapping, collect rows, say what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError
from ioweather.core.frames import Frame
from ioweather.readers.prometheus.amounts import Amounts
from ioweather.readers.prometheus.mapping import Mapped, Mappings, mappings_of

_FRAME_ROWS: Final = 50_000
_OWN: Final = "A mapping of your own says what they are: docs/how-to/prometheus-in.md."
Pieces = Generator[tuple[str, Frame], None, str | None]


class Known:
    """What each series is, asked once; and how many are nobody's."""

    def __init__(self, mappings: Mappings, context: ReadContext) -> None:
        self._mappings, self._context = mappings, context
        self._mapped: dict[str, Mapped | None] = {}
        self.without_host = 0

    def of(self, key: str, name: str, labels: dict[str, str]) -> Mapped | None:
        if key in self._mapped:
            return self._mapped[key]
        mapped = self._mappings.of(name, labels, self._context.host)
        if mapped is None and self._context.host is None and self._mappings.needs_host(name, labels):
            self.without_host += 1
        if mapped is not None and self._context.system is not None and mapped.target.kind == "host":
            mapped = mapped._replace(target=mapped.target._replace(system=self._context.system))
        self._mapped[key] = mapped
        return mapped

    def left(self) -> dict[str, int]:
        unknown = sum(mapped is None for mapped in self._mapped.values()) - self.without_host
        return {"series that no mapping names": unknown, "series of an unknown host (give --host)": self.without_host}


class Taking:
    """The rows of one reading. `hint`: how to record more than one look; `looks` what is counted of them."""

    def __init__(self, path: Path, context: ReadContext, hint: str) -> None:
        self.path, self.context, self._hint = path, context, hint
        self.amounts = Amounts(cluster=context.cluster)
        self.known = Known(mappings_of(context.mapping), context)
        self.made = 0
        self.notes: list[str] = []

    def add(
        self, key: str, name: str, labels: dict[str, str], time_ns: int, value: float, *, is_rate: bool = False
    ) -> None:
        """`is_rate`: the file says that its counters were made into rates."""
        mapped = self.known.of(key, name, labels)
        if mapped is not None:
            if is_rate and mapped.value == "counter":
                mapped = mapped._replace(value="rate")
            self.amounts.add(key, mapped, time_ns, value)

    def full(self) -> Iterator[tuple[str, Frame]]:
        if self.amounts.waiting >= _FRAME_ROWS:
            yield from self._rows()

    def _rows(self) -> Iterator[tuple[str, Frame]]:
        for table, frame in self.amounts.rows():
            self.made += frame.rows
            yield table, frame

    def finish(self, held: str) -> Pieces:
        """`held`: what the file holds, where nothing could be taken."""
        yield from self._rows()
        once = len(self.amounts.shown_once)
        left = Counter(
            {
                "counter(s) shown once, where two looks give amounts": once,
                "difference(s) over a gap of more than ten times the usual interval": self.amounts.gaps,
                **self.known.left(),
            }
        )
        said = "; ".join(f"{count} {what}" for what, count in left.items() if count)
        if self.amounts.late:
            raise CorruptInput(
                f"{self.path}: {self.amounts.late:,} sample(s) stand behind later ones of their series, and were left "
                "out.",
                hint="Put the samples into the order of time.",
            )
        if not self.made:
            if self.known.without_host and not once:
                raise SourceError(f"{self.path} does not say which host it is of.", hint="Give --host.")
            raise EmptyInput(
                f"{self.path} holds {held} and nothing to take{f' ({said})' if said else ''}.",
                hint=self._hint if once else _OWN,
            )
        parts = [*self.notes, *([f"left out: {said}"] if said else [])]
        return f"{self.path}: {'; '.join(parts)}." if parts else None
