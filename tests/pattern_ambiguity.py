"""Whether Python's backtracking matcher can take more than linear time over a pattern: by structure, not by a clock.

A pattern becomes the automaton of its characters (Glushkov: a state per character class, no empty moves). It takes
exponential time if some text leads from a state back to it in two ways, and polynomial time if some text loops in p,
loops in q and leads from p to q (Weber and Seidl 1991, "On the degree of ambiguity of finite automata"). Looking
around counts as nothing, a back reference as any character, {m,n} as three characters at most.
"""

from __future__ import annotations

import _sre
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from re import _compiler as compiler
from re import _constants as c
from re import _parser as parser

# One of each class that a pattern may tell apart, and letters and digits of all kinds that hex numbers tell apart.
ALPHABET = [chr(code) for code in range(128)] + ["é", "٣", "\u2003"]
_MOST_COPIES = 3


@dataclass
class Part:
    """Of the automaton: whether it matches nothing at all, and where it begins and ends."""

    is_nullable: bool
    first: Counter[int] = field(default_factory=Counter)
    last: Counter[int] = field(default_factory=Counter)


class Automaton:
    def __init__(self, pattern: str | bytes, flags: int, searches: bool, whole: bool) -> None:
        self.flags = flags | (re.ASCII if isinstance(pattern, bytes) else 0)
        self.classes: list[frozenset[str]] = []
        self.edges: Counter[tuple[int, int]] = Counter()
        tree = parser.parse(pattern, flags)
        self.flags |= tree.state.flags
        items = list(tree)
        before = Part(True)
        anchored = bool(items) and items[0][0] is c.AT and items[0][1] in (c.AT_BEGINNING, c.AT_BEGINNING_STRING)
        if searches and (not anchored or self.flags & re.MULTILINE):
            before = self._loop(self._leaf(ALPHABET))
            if anchored:
                before = self._joined(before, self._leaf("\n"))
        self._joined(before, self._sequence(items if whole else _that_may_fail(items)))

    def _leaf(self, chars: Iterable[str]) -> Part:
        self.classes.append(frozenset(chars))
        here = len(self.classes) - 1
        return Part(False, Counter([here]), Counter([here]))

    def _joined(self, left: Part, right: Part) -> Part:
        for p, n in left.last.items():
            for q, m in right.first.items():
                self.edges[p, q] += n * m
        return Part(
            left.is_nullable and right.is_nullable,
            left.first + right.first if left.is_nullable else left.first,
            left.last + right.last if right.is_nullable else right.last,
        )

    def _loop(self, part: Part) -> Part:
        for p, n in part.last.items():
            for q, m in part.first.items():
                self.edges[p, q] += n * m
        return Part(True, part.first, part.last)

    def _sequence(self, items: list[tuple[object, object]]) -> Part:
        found = Part(True)
        for item in items:
            found = self._joined(found, self._node(*item))
        return found

    def _node(self, kind: object, value: object) -> Part:
        if kind is c.GROUPREF:
            return self._leaf(ALPHABET)
        if kind in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self._leaf(_characters(kind, value, self.flags))
        if kind is c.SUBPATTERN:
            return self._sequence(list(value[3]))
        if kind is c.BRANCH:
            parts = [self._sequence(list(branch)) for branch in value[1]]
            return Part(
                any(part.is_nullable for part in parts),
                sum((part.first for part in parts), Counter()),
                sum((part.last for part in parts), Counter()),
            )
        if kind in (
            c.MAX_REPEAT,
            c.MIN_REPEAT,
            c.POSSESSIVE_REPEAT,
        ):  # the last gives nothing back: less than is said here
            return self._repeat(*value)
        if kind in (c.AT, c.ASSERT, c.ASSERT_NOT):
            return Part(True)
        raise NotImplementedError(kind)

    def _repeat(self, least: int, most: int, body: object) -> Part:
        found = Part(True)
        for _ in range(min(least, _MOST_COPIES)):
            found = self._joined(found, self._sequence(list(body)))
        if most is c.MAXREPEAT:
            if least == 1 and len(found.first) and found.last == found.first:  # x+ is one state that repeats
                looped = self._loop(found)
                return Part(False, looped.first, looped.last)
            return self._joined(found, self._loop(self._sequence(list(body))))
        for _ in range(min(most, _MOST_COPIES) - min(least, _MOST_COPIES)):
            more = self._sequence(list(body))
            found = self._joined(found, Part(True, more.first, more.last))
        return found


def _characters(kind: object, value: object, flags: int) -> frozenset[str]:
    """Those of the alphabet that the class takes, asked of `re` itself."""
    alone = parser.SubPattern(parser.State(), [(kind, value)])
    compiled = _sre.compile("", flags, compiler._code(alone, flags), 0, {}, ())
    return frozenset(char for char in ALPHABET if compiled.fullmatch(char))


def _that_may_fail(items: list[tuple[object, object]]) -> list[tuple[object, object]]:
    """Without what stands last and matches nothing at all if need be: there the matcher never turns back."""
    while items:
        kind, value = items[-1]
        if kind in (c.MAX_REPEAT, c.MIN_REPEAT) and value[0] == 0:
            items = items[:-1]
        elif kind is c.SUBPATTERN and len(rest := _that_may_fail(list(value[3]))) < len(value[3]):
            items = [*items[:-1], *rest]
        else:
            break
    return items


def degree(pattern: str | bytes, flags: int = 0, *, searches: bool = False, whole: bool = True) -> str:
    """'linear', 'polynomial: why' or 'exponential: why'. `searches`: anywhere in a text; `whole`: it must fit all."""
    automaton = Automaton(pattern, flags, searches, whole)
    after: dict[int, list[int]] = defaultdict(list)
    for p, q in automaton.edges:
        after[p].append(q)
    loops = [p for p in range(len(automaton.classes)) if p in _reached([p], after)]
    classes = automaton.classes
    for (p, q), ways in automaton.edges.items():
        if ways > 1 and p in _reached([q], after) and classes[q]:
            return f"exponential: {_shown(classes[q])} repeats in {ways} ways"
    for p in loops:
        if _two_ways(p, after, classes):
            return f"exponential: {_shown(classes[p])} returns in two ways"
    for p in loops:
        for q in loops:
            if p != q and q in _reached([p], after) and _leads(p, q, after, classes):
                return f"polynomial: {_shown(classes[p])} repeats, and so does {_shown(classes[q])}"
    return "linear"


def _reached(start: list[int], after: dict[int, list[int]]) -> set[int]:
    seen: set[int] = set()
    todo = [q for p in start for q in after[p]]
    while todo:
        p = todo.pop()
        if p not in seen:
            seen.add(p)
            todo += after[p]
    return seen


def _two_ways(p: int, after: dict[int, list[int]], classes: list[frozenset[str]]) -> bool:
    """From (p, p) by one text along two paths that part, back to (p, p)."""
    seen: set[tuple[int, int, bool]] = set()
    todo = [(p, p, False)]
    while todo:
        a, b, parted = todo.pop()
        for x in after[a]:
            for y in after[b]:
                if classes[x] & classes[y]:
                    state = (x, y, parted or x != y)
                    if state == (p, p, True):
                        return True
                    if state not in seen:
                        seen.add(state)
                        todo.append(state)
    return False


def _leads(p: int, q: int, after: dict[int, list[int]], classes: list[frozenset[str]]) -> bool:
    """From (p, p, q) by one text to (p, q, q)."""
    seen: set[tuple[int, int, int]] = set()
    todo = [(p, p, q)]
    while todo:
        a, b, d = todo.pop()
        for x in after[a]:
            for y in after[b]:
                both = classes[x] & classes[y]
                for z in after[d] if both else ():
                    if both & classes[z]:
                        state = (x, y, z)
                        if state == (p, q, q):
                            return True
                        if state not in seen:
                            seen.add(state)
                            todo.append(state)
    return False


def _shown(chars: frozenset[str]) -> str:
    text = "".join(sorted(chars))
    return repr(text if len(text) < 12 else text[:5] + "..." + text[-5:])
