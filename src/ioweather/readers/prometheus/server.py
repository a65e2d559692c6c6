"""Samples of a Prometheus server by its HTTP API.

The API is asked for raw samples, with the moments at which they were scraped: a range selector in an instant query
(`metric[1h]` at a time) gives every sample as it was stored. A range query would give values on a grid, which shows a
counter as it was up to five minutes before, and hides restarts between.
"""

from __future__ import annotations

import base64
import heapq
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlencode, urlsplit, urlunsplit

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, format_bytes
from ioweather.readers.prometheus.mapping import Amounts, Mappings

_MILLISECOND_NS: Final = 1_000_000
# What one question asks for: less where the server says that it is too much, more again after.
_FIRST_NS, _MOST_NS, _LEAST_NS = HOUR_NS, 6 * HOUR_NS, MINUTE_NS
_MOST_ANSWER_BYTES: Final = 256 << 20
_SECONDS: Final = 120.0
# A poll reads this much before its period: the first samples in it need one to differ from.
_LOOKBACK_NS: Final = HOUR_NS
# Samples of the last half minute may still be on their way.
_SETTLED_NS: Final = 30 * NS


class _TooMuch(Exception):
    """The server refuses to load so many samples, or its answer is too large."""


@dataclass(frozen=True)
class PrometheusServer:
    """Address and headers of a server. `match` is a further condition on labels in PromQL: cluster="a"."""

    url: str
    match: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_url(cls, address: str, token: str | None = None) -> PrometheusServer:
        """http://USER:PASSWORD@HOST:9090/prefix?match=cluster="a" """
        parts = urlsplit(address)
        options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        if parts.scheme not in ("http", "https") or not parts.hostname or set(options) - {"match"}:
            raise UsageError(
                f"{address.rpartition('@')[2]!r} is not a Prometheus server address.",
                hint='Use http://HOST:9090, with ?match=LABEL="VALUE" if needed.',
            )
        headers = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        elif parts.username is not None:
            words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = "Basic " + base64.b64encode(words.encode()).decode()
        place = parts.netloc.rpartition("@")[2]
        return cls(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), options.get("match", ""), headers)

    @property
    def where(self) -> str:
        return self.url + (f"?{urlencode({'match': self.match})}" if self.match else "")

    def now_ns(self) -> int:
        """The current time by the server's clock."""
        seconds, _ = self.query("time()", None)["result"]
        return int(float(seconds) * 1000) * _MILLISECOND_NS

    def samples(self, names: list[str], start_ns: int, end_ns: int) -> list[dict[str, Any]]:
        """Every series of these names with its samples after start, up to end: both whole seconds."""
        condition = f",{self.match}" if self.match else ""
        selector = f'{{__name__=~"{"|".join(names)}"{condition}}}[{(end_ns - start_ns) // NS}s]'
        found = self.query(selector, end_ns)
        if found.get("resultType") != "matrix":
            raise SourceError(f"{self.url} returned a {found.get('resultType')} instead of samples.")
        return list(found["result"])

    def query(self, promql: str, at_ns: int | None) -> dict[str, Any]:
        """The data of an instant query. Raises _TooMuch or SourceError."""
        fields = {"query": promql} | ({} if at_ns is None else {"time": str(at_ns // NS)})
        request = urllib.request.Request(
            f"{self.url}/api/v1/query", urlencode(fields).encode(), {**self.headers, "Accept": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                body = answer.read(_MOST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            body, status = error.read(1 << 20), error.code
            reason = _reason(body)
            if "too many samples" in reason or "maximum" in reason or status == 413:
                raise _TooMuch(reason) from None
            hint = "Use --token-file, or a user and password in the address." if status in (401, 403) else ""
            raise SourceError(f"{self.url} returned status {status}: {reason}.", hint=hint) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise SourceError(f"Cannot reach {self.url}: {why}.", hint="Check the address.") from None
        if len(body) > _MOST_ANSWER_BYTES:
            raise _TooMuch(f"more than {format_bytes(_MOST_ANSWER_BYTES)}")
        try:
            document = json.loads(body)
            if document["status"] != "success":
                raise SourceError(f"{self.url} returned an error: {document.get('error')}.")
            data: dict[str, Any] = document["data"]
            return data
        except (ValueError, KeyError, TypeError):
            raise SourceError(f"The response from {self.url} is not from a Prometheus server.") from None


def _reason(body: bytes) -> str:
    """The error in the body of a refusal."""
    try:
        return str(json.loads(body)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return body[:100].decode("utf-8", "replace").strip() or "no reason"


@dataclass
class Poll:
    """Reads a period of a server piece by piece. `mappings` counts the series that were left out."""

    server: PrometheusServer
    context: ReadContext
    mappings: Mappings = field(init=False)

    def __post_init__(self) -> None:
        self.mappings = Mappings(self.context.mapping, self.context)
        self._amounts = Amounts(by_minute=not self.context.keep_raw, cluster=self.context.cluster)

    def settled_ns(self) -> int:
        """The end of the last minute whose samples have all arrived."""
        return (self.server.now_ns() - _SETTLED_NS) // MINUTE_NS * MINUTE_NS

    def pieces(self, since_ns: int, until_ns: int) -> Iterator[tuple[int, list[tuple[str, Frame]]]]:
        """Pairs of a time and the frames of rows that end before it. Rows begin at the first sample of a minute, so
        that adjoining polls give the rows of one."""
        at, length = since_ns - _LOOKBACK_NS, _FIRST_NS
        while at < until_ns:
            border = since_ns if at < since_ns else until_ns
            end = min(at + length, border)
            try:
                found = self.server.samples(self.mappings.names, at, end)
            except _TooMuch as error:
                if end - at <= _LEAST_NS:
                    raise SourceError(
                        f"{self.server.url} cannot return one minute of samples: {error}.",
                        hint=(
                            'Select fewer samples with http://HOST:9090?match=LABEL="VALUE", or increase '
                            "--query.max-samples."
                        ),
                    ) from None
                length = max(_LEAST_NS, (end - at) // 2 // MINUTE_NS * MINUTE_NS)
                continue
            # In the order of time over all series: what appears is compared with when its neighbours were seen.
            for time_ns, key, mapped, value in heapq.merge(*map(self._mapped_samples, found), key=itemgetter(0)):
                self._amounts.add(key, mapped, time_ns, value)
            frames = list(self._amounts.rows())
            if end > since_ns:  # rows of the time before are in already
                yield end, frames
            at, length = end, min(2 * length, _MOST_NS)

    def _mapped_samples(self, series: dict[str, Any]) -> list[tuple[int, str, Any, float]]:
        """Time, key, mapping and value of each sample of a series; none if no rule names it."""
        try:
            labels = dict(series["metric"])
            name = labels.pop("__name__")
            key = json.dumps([name, sorted(labels.items())])
            mapped = self.mappings.find(key, name, labels)
            if mapped is None:
                return []
            return [
                (round(float(time) * 1000) * _MILLISECOND_NS, key, mapped, float(value))
                for time, value in series["values"]
            ]
        except (KeyError, TypeError, ValueError):
            raise SourceError(f"The response from {self.server.url} is not from a Prometheus server.") from None
