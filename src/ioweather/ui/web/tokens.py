"""Tokens that let other hosts send rows, or a person ask for their own jobs.

They are stored in `<lake>/tokens.json`, which only its owner can read.
A token is 256 random bits, so its plain SHA-256 reveals nothing; only the hash is stored. Tokens are read again at
every use: a revoked one is refused at once.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from ioweather.core.errors import LakeError, UsageError
from ioweather.core.units import now_ns
from ioweather.lake.layout import lake_directory

_BYTES: Final = 32
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Token:
    """`hosts` is a pattern (n1, nid*): whose rows it may bring. With `user` it brings none: it shows that person's own
    jobs."""

    name: str
    hosts: str
    sha256: str
    created_ns: int
    user: str | None = None

    def is_for(self, host: str) -> bool:
        """Whether the token may bring rows of this host."""
        return self.user is None and fnmatch.fnmatchcase(host, self.hosts)


def tokens_file(root: Path) -> Path:
    return root / "tokens.json"


def create_token(root: Path, name: str, hosts: str, user: str | None = None) -> str:
    """Create a token and return its text, which is not stored."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"{name!r} is not a valid token name.", hint="Use letters, digits and . - _ only.")
    text = secrets.token_urlsafe(_BYTES)
    with _edit_tokens(root) as tokens:
        if any(token.name == name for token in tokens):
            raise UsageError(f"Token {name} already exists.", hint="Revoke it first, or use another name.")
        tokens.append(Token(name, hosts, _digest(text), now_ns(), user))
    return text


def revoke_token(root: Path, name: str) -> None:
    """Remove a token; it is refused from then on."""
    with _edit_tokens(root) as tokens:
        others = [token for token in tokens if token.name != name]
        if len(others) == len(tokens):
            known = ", ".join(token.name for token in tokens) or "none"
            raise UsageError(f"There is no token {name}.", hint=f"Tokens: {known}.")
        tokens[:] = others


def list_tokens(root: Path) -> list[Token]:
    """All tokens of the lake."""
    try:
        body = json.loads(tokens_file(root).read_text(encoding="utf-8"))
        return [Token(**entry) for entry in body["tokens"]]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LakeError(f"Cannot read {tokens_file(root)}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{tokens_file(root)} is damaged.", hint="Remove it and create the tokens again.") from None


def find_token(root: Path, text: str) -> Token | None:
    """The token with this text. It is found by its hash, so that timing reveals nothing of the text."""
    try:
        status = tokens_file(root).stat()
    except OSError:
        return None
    return _tokens_by_hash(root, (status.st_ino, status.st_mtime_ns, status.st_size)).get(_digest(text))


@lru_cache(maxsize=8)
def _tokens_by_hash(root: Path, _version: tuple[int, int, int]) -> dict[str, Token]:
    """Tokens by the hash of their text. Cached while the file is the same: a site may have one for each host."""
    return {token.sha256: token for token in list_tokens(root)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@contextmanager
def _edit_tokens(root: Path) -> Iterator[list[Token]]:
    """The list of tokens, to be changed in place by one writer at a time; it is written when the context ends."""
    with lake_directory(root) as folder:
        try:
            fcntl.flock(folder.fd, fcntl.LOCK_EX)
            tokens = list_tokens(root)
            yield tokens
            text = json.dumps({"version": 1, "tokens": [asdict(token) for token in tokens]}, indent=1)
            folder.replace(tokens_file(root).name, text.encode())
        except PermissionError as error:
            raise LakeError(f"Cannot write {tokens_file(root)}: {error.strerror}.") from None
