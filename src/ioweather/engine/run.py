"""Feeding an Executor: bounded work in flight, results as they come, cancellation that leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, TypeVar

from ioweather.core.errors import IoweatherError

T = TypeVar("T")


def in_order_of_completion(
    executor: Executor, task: Callable[..., T], inputs: Iterable[tuple[Any, ...]], *, in_flight: int = 8
) -> Iterator[T]:
    """task(*input) for each input, as results arrive; never more than `in_flight` waiting, so inputs may be endless."""
    waiting: set[Future[T]] = set()
    source = iter(inputs)
    exhausted = False
    try:
        while waiting or not exhausted:
            while not exhausted and len(waiting) < in_flight:
                try:
                    waiting.add(executor.submit(task, *next(source)))
                except StopIteration:
                    exhausted = True
            if waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
    except BrokenExecutor:
        raise IoweatherError(
            "A worker process died (killed, or out of memory).",
            hint="Run the same command again: what is in stays in, and it goes on from there.",
        ) from None
    finally:
        for future in waiting:
            future.cancel()
