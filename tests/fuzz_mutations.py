"""Damage to files: bytes, the words and lines of text, the values of JSON, and how a file is wrapped.

Every mutation draws from the generator that it is given and from nothing else, so a seed and an index make it again.
`fuzz_archives` adds what knows the structure of binary formats.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from fuzz_seeds import Seed

from fuzz_archives import ARCHIVES

MOST_BYTES = 1 << 20  # a file twice as long teaches nothing and takes twice as long
NUMBERS = (
    b"-1", b"0", b"-0", b"1e308", b"-1e308", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"18446744073709551615", b"18446744073709551616", b"9007199254740993", b"4294967296", b"2147483647", b"inf",
    b"-inf", b"Infinity", b"nan", b"NaN", b"1e32", b"1E+400", b"1e-320", b"", b" ", b".", b"-", b"+5", b"0x10",
    b"1_000", b"1,5", b"1.5.2", b"0.5", b"00012", b"\xd9\xa3", b"\xc2\xb2", b"9" * 30, b"9" * 5000, b"1" + b"0" * 400,
    b"null", b"true", b"253402300800", b"4581964800", b"-2208988800", b"62135596800000000000",
)  # fmt: skip
WORDS = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\r\n", b"\n", b"\n\n\n", b"\t", b" ", b"|", b";", b",", b"=", b":",
    b"#", b"[", b"]", b"{", b"}", b'"', b"'", b"\\", b"/", b"%", b"--", b"\xed\xa0\x80", b"\xf0\x9f\x8c\xa6",
    b"\xe2\x80\xa8", b"\x85", b"\x1a", b"\x0b", b"\x1c", b"[1-99999999]", b"n[1-4,6-]", b"{0..9}", b"${x}", b"%s",
    b"%n",    b"Unknown", b"None", b"NaT", b"AM", b"PM", b"+9999", b"T", b"Z", b"UTC", b"../..",
)  # fmt: skip
YEARS = (b"1900", b"1969", b"1970", b"2115", b"2262", b"2263", b"9999", b"0000", b"10000", b"99", b"2038")
_NUMBER = re.compile(rb"(?<![A-Za-z_])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_DATE = re.compile(
    rb"\d{4}(?=-\d\d-\d\d)|(?<=\d\d/\d\d/)\d{2,4}|(?<= )(?:19|20)\d\d\b|\b17\d{8}\b|\b20\d{2}(?=\d{4}\b)"
)
_TOKEN = re.compile(rb"[^\s;|,=:]+")
_SEPARATOR = re.compile(rb"[ \t;|,=:]+")


def mutated(rng: Random, seeds: Sequence[Seed]) -> tuple[Seed, bytes | dict[str, bytes]]:
    """A seed and what became of it."""
    seed = rng.choice(seeds)
    if isinstance(seed.data, bytes):
        return seed, _file(rng, seed.kind, seed.data, seeds)
    members = dict(seed.data)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(sorted(members))
        members[name] = _file(rng, "text", members[name], seeds)
    return seed, members


def _file(rng: Random, kind: str, data: bytes, seeds: Sequence[Seed]) -> bytes:
    if kind in ARCHIVES:
        if rng.random() < 0.75:
            return ARCHIVES[kind](rng, data)
        return _stacked(rng, data, seeds, BYTES)
    if kind == "json" and rng.random() < 0.6:
        data = _json(rng, data)
    elif kind == "json_lines" and rng.random() < 0.7:
        lines = data.splitlines(keepends=True)
        number = rng.randrange(len(lines))
        lines[number] = _json(rng, lines[number]) + b"\n"
        data = b"".join(lines)
    else:
        data = _stacked(rng, data, seeds, TEXT)
    if rng.random() < 0.06:
        data = gzip.compress(data, 1, mtime=0)
        if rng.random() < 0.4:
            data = _stacked(rng, data, seeds, BYTES)
    return data


def _stacked(rng: Random, data: bytes, seeds: Sequence[Seed], mutations: Sequence[_Mutation]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        data = rng.choice(mutations)(rng, data, seeds)[:MOST_BYTES]
    return data


# -------------------------------------------------------------------------------------------------------------- bytes

_Mutation = Callable[[Random, bytes, Sequence[Seed]], bytes]


def _place(rng: Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def _flip(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    start = _place(rng, data)
    length = rng.randint(1, 16)
    return data[:start] + rng.choice((rng.randbytes(length), bytes(length), b"\xff" * length)) + data[start + length :]


def _insert(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    start = _place(rng, data)
    return data[:start] + rng.randbytes(rng.randint(1, 32)) + data[start:]


def _delete(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    start = _place(rng, data)
    return data[:start] + data[start + rng.choice((1, 2, 8, 64, 500)) :]


def _duplicate(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    start = _place(rng, data)
    piece = data[start : start + rng.choice((1, 8, 64, 500))]
    return data[:start] + piece * rng.choice((2, 2, 3, 50)) + data[start + len(piece) :]


def _truncate(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return data[: _place(rng, data)]


def _splice(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    other = rng.choice(seeds).data
    if not isinstance(other, bytes):
        other = rng.choice(sorted(other.values()))
    start, begin = _place(rng, data), _place(rng, other)
    piece = other[begin : begin + rng.choice((8, 64, 500, 5000))]
    return data[:start] + piece + data[start + rng.choice((0, len(piece))) :]


BYTES: tuple[_Mutation, ...] = (_flip, _flip, _overwrite, _insert, _delete, _duplicate, _truncate, _splice)

# --------------------------------------------------------------------------------------------------------------- text


def _replace_one(rng: Random, data: bytes, pattern: re.Pattern[bytes], choices: Sequence[bytes]) -> bytes:
    found = [match.span() for match in pattern.finditer(data)]
    if not found:
        return data
    start, end = rng.choice(found)
    return data[:start] + rng.choice(choices) + data[end:]


def _number(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return _replace_one(rng, data, _NUMBER, NUMBERS)


def _date(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return _replace_one(rng, data, _DATE, (*YEARS, b"4581964800", b"-2208988800"))


_DIGIT = re.compile(rb"[0-9]")
_EPOCH = re.compile(rb"(?<![0-9.])(1[4-9][0-9]{8})(?=[0-9]{0,9}(?![0-9]))")
_DAY = re.compile(rb"(?<=20[0-9]{2}-[01][0-9]-)[0-3][0-9]|(?<=[01][0-9]/)[0-3][0-9](?=/)")
_MONTH = re.compile(rb"(?<=20[0-9]{2}-)[01][0-9](?=-[0-3][0-9])|[01][0-9](?=/[0-3][0-9]/)")
_HOUR = re.compile(rb"(?<![0-9:])[0-2][0-9](?=:[0-5][0-9]:[0-5][0-9])")
_STEPS = (3_600, 7_200, 86_400, 14 * 86_400, 400 * 86_400, -3_600, -86_400, -1_400_000_000, 90, 3)


def _digit(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return _replace_one(rng, data, _DIGIT, [b"%d" % digit for digit in range(10)])


def _clock(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """The clock is set: all times behind a place are other ones, by as much."""
    start = rng.choice([place for place in (0, data.find(b"\n", _place(rng, data)) + 1) if place >= 0])
    before, after = data[:start], data[start:]
    if _EPOCH.search(after):
        step = rng.choice(_STEPS)
        return before + _EPOCH.sub(lambda match: b"%010d" % max(0, int(match[1]) + step), after)
    pattern, most = rng.choice(((_DAY, 28), (_MONTH, 12), (_HOUR, 23)))
    return before + pattern.sub(lambda match: b"%02d" % min(most, int(match[0]) + rng.choice((1, 1, 5))), after)


def _late(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """A line with a counter that is missing at first, or once."""
    lines = data.split(b"\n")
    names = sorted({name for line in lines if (name := line[:24].rstrip(b"0123456789. "))})
    if not names:
        return data
    name = rng.choice(names)
    gone = [number for number, line in enumerate(lines) if line.startswith(name)][: rng.choice((1, 1, 2))]
    return b"\n".join(line for number, line in enumerate(lines) if number not in gone)


def _token(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return _replace_one(rng, data, _TOKEN, (b"", b"x" * rng.choice((1, 300, 70_000)), *WORDS, *NUMBERS))


def _separator(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    return _replace_one(rng, data, _SEPARATOR, (b"", b" ", b"\t", b";;", b"||", b",,", b" " * 5000, b"=", b"\xc2\xa0"))


def _word(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    start = rng.choice((0, len(data), _place(rng, data), _place(rng, data)))
    return data[:start] + rng.choice(WORDS) + data[start:]


def _fields(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """In one line a field dropped, doubled or moved."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    mark = rng.choice((b" ", b"|", b";", b",", b"\t", b"="))
    fields = lines[number].split(mark)
    field = rng.randrange(len(fields))
    how = rng.randrange(4)
    if how == 0:
        del fields[field]
    elif how == 1:
        fields.insert(field, fields[field])
    elif how == 2:
        fields.insert(rng.randrange(len(fields)), fields.pop(field))
    else:
        rng.shuffle(fields)
    lines[number] = mark.join(fields)
    return b"\n".join(lines)


def _lines(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """A line dropped, doubled, moved or cut; all of them in another order."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    how = rng.randrange(6)
    if how == 0:
        del lines[number]
    elif how == 1:
        lines[number:number] = [lines[number]] * rng.choice((1, 2, 30))
    elif how == 2:
        lines.insert(rng.randrange(len(lines)), lines.pop(number))
    elif how == 3:
        lines[number] = lines[number][: _place(rng, lines[number])]
    elif how == 4:
        end = number + rng.randint(2, 6)
        piece = lines[number:end]
        rng.shuffle(piece)
        lines[number:end] = piece
    else:
        lines.insert(number, rng.choice(rng.choice(lines).split() or [b""]))
    return b"\n".join(lines)


def _whole(rng: Random, data: bytes, seeds: Sequence[Seed]) -> bytes:
    """What an editor, a copy or a joined file does to all of it."""
    how = rng.randrange(9)
    if how == 0:
        return data.replace(b"\n", b"\r\n")
    if how == 1:
        return b"\xef\xbb\xbf" + data
    if how == 2:
        return data + data
    if how == 3:
        return data.decode("utf-8", "replace").encode("utf-16")
    if how == 4:
        return data.rstrip(b"\n")
    if how == 5:
        return data.upper() if rng.random() < 0.5 else data.lower()
    if how == 6:
        return data.replace(b".", b",")
    start = _place(rng, data)
    if how == 7:
        return (
            data[:start]
            + rng.choice((b" ", b"\n", b"\t", b"\0", b"\r")) * rng.choice((100, 9_000, 200_000))
            + data[start:]
        )
    return (
        data[:start]
        + rng.choice((b"[", b"{", b'{"a":', b"(", b"- ", b'"')) * rng.choice((50, 3_000, 100_000))
        + data[start:]
    )


TEXT: tuple[_Mutation, ...] = (
    _clock, _clock, _clock, _digit, _digit, _digit, _late,
    _number, _number, _number, _number, _date, _date, _token, _token, _separator, _word, _word, _fields, _fields,
    _lines, _lines, _whole, _flip, _overwrite, _delete, _duplicate, _truncate, _splice,
)  # fmt: skip

# --------------------------------------------------------------------------------------------------------------- JSON

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, -0.5, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**32, 10**400, 1e308, float("inf"),
    float("-inf"), float("nan"), "", " ", "x", "nan", "1e999", "9" * 5000, "x" * 70_000, "\0", "\ud800",
    "2115-01-01T00:00:00Z", "1900-01-01 00:00:00", [], {}, [[]], [None], {"": None}, [1, "a", None],
    {"number": 5, "set": True}, 4581964800, -2208988800, 253402300800,
)  # fmt: skip


def _json(rng: Random, data: bytes) -> bytes:
    """Values of other types and sizes, keys dropped and doubled, nesting that has no end."""
    try:
        document = json.loads(data)
    except ValueError:  # real output is cut sometimes
        return _number(rng, data, ())
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            break
        _change(rng, *rng.choice(places))
    text = json.dumps(document, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.9)
    encoded = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        at = [match.start() for match in re.finditer(rb"[\[{]|(?<=: )", encoded)] or [0]
        start, depth = rng.choice(at), rng.choice((900, 5_000, 100_000))
        opening, closing = rng.choice(((b"[", b"]"), (b'{"a":', b"}")))
        encoded = encoded[:start] + opening * depth + b"1" + closing * depth + encoded[start:]
    return encoded


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield value, key
        yield from _places(item)


def _change(rng: Random, parent: Any, key: Any) -> None:
    how = rng.randrange(8)
    if how == 0:
        del parent[key]
    elif how == 1 and isinstance(parent, list):
        parent[key:key] = [deepcopy(parent[key]) for _ in range(rng.choice((1, 50)))]
    elif how == 1:
        parent[f"{key}{rng.choice(('', ' ', 'x'))}"] = deepcopy(parent[key])
    elif how == 2:
        parent[key] = [parent[key]]
    elif how == 3:
        parent[key] = {"number": parent[key], "set": rng.choice((True, None)), "infinite": rng.choice((False, True))}
    elif how == 4 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
        parent[key] = rng.choice((str(parent[key]), -parent[key], parent[key] * 10**9, parent[key] - 1))
    else:
        parent[key] = deepcopy(rng.choice(_VALUES))  # a later change must not reach the list
