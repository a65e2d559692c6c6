"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """`check` is the name of the check, `where` the sample or the case, `text` what was found."""

    check: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}, {self.where}: {self.text}"


class ChecksFailed(AssertionError):
    """Everything that was found, not only the first."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__("\n".join([f"{name}: {len(self.problems)} problems.", *map(str, self.problems)]))

    def __reduce__(self) -> tuple[object, ...]:
        return ChecksFailed, (self.name, self.problems)


def raise_if_any(name: str, problems: Iterable[Problem]) -> None:
    found = list(dict.fromkeys(problems))
    if found:
        raise ChecksFailed(name, found)
