"""What a Prometheus server pushes (remote write, version 1): snappy around a protobuf message.

The message is that of prometheus/prompb: a WriteRequest has series, a series labels and samples. It is described here
in four lines, so that no generated code has to follow the library's versions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from ioweather.core.errors import Busy, CorruptInput, UsageError
from ioweather.core.units import MIB, format_bytes

MOST_BYTES: Final = 16 * MIB
# A server sends 2,000 samples at a time, some hundred kilobytes of text.
MOST_PLAIN_BYTES: Final = 64 * MIB
_MOST_LABELS: Final = 100
_LAST_MS: Final = (1 << 63) // 1_000_000 - 1  # of nanoseconds in 64 bits
_FIELDS: Final = {
    "Label": (("name", 1, "string", ""), ("value", 2, "string", "")),
    "Sample": (("value", 1, "double", ""), ("timestamp", 2, "int64", "")),
    "TimeSeries": (("labels", 1, "repeated", "Label"), ("samples", 2, "repeated", "Sample")),
    "WriteRequest": (("timeseries", 1, "repeated", "TimeSeries"),),
}


class Series(NamedTuple):
    """`samples` are (ms since 1970, value); markers of a series that ended are left out."""

    name: str
    labels: dict[str, str]
    samples: list[tuple[int, float]]

    @property
    def key(self) -> str:
        return json.dumps([self.name, sorted(self.labels.items())])


def decoded(body: bytes) -> Iterator[Series]:
    try:
        import cramjam
        from google.protobuf.message import DecodeError
    except ImportError:
        # Not the sender's mistake: it keeps what it has, and sends it again.
        raise Busy(
            "This server cannot read remote write: it lacks cramjam or protobuf.",
            hint="pip install 'ioweather[remote-write]'",
        ) from None
    try:
        size = cramjam.snappy.decompress_raw_len(body)
        if size > MOST_PLAIN_BYTES:
            raise CorruptInput(f"The message has {format_bytes(size)}; {format_bytes(MOST_PLAIN_BYTES)} are the most.")
        request = _message()()
        request.ParseFromString(bytes(cramjam.snappy.decompress_raw(body)))
    except (cramjam.DecompressionError, DecodeError, ValueError, OverflowError):
        raise CorruptInput("The body is no message of remote write, version 1, in snappy's block format.") from None
    for series in request.timeseries:
        labels = {label.name: label.value for label in series.labels[: _MOST_LABELS + 1]}
        name = labels.pop("__name__", "")
        if not name or len(labels) > _MOST_LABELS:
            raise CorruptInput("A series has no name, or more labels than any has.")
        samples = [(sample.timestamp, sample.value) for sample in series.samples if math.isfinite(sample.value)]
        if wrong := [time for time, _ in samples if not 0 <= time <= _LAST_MS]:
            raise UsageError(f"A sample of {name} has the timestamp {wrong[0]} ms, which is no time after 1970.")
        yield Series(name, labels, samples)


@cache
def _message() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="ioweather_remote_write.proto", package="prometheus", syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            many = kind == "repeated"
            message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE
                if many
                else {"string": kinds.TYPE_STRING, "double": kinds.TYPE_DOUBLE, "int64": kinds.TYPE_INT64}[kind],
                type_name=f".prometheus.{of}" if many else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))
