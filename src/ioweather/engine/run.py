"""Feeding an Executor: bounded work in flight, results in the order of the inputs, and what a lost worker costs.

The order makes a run on a cluster equal to one in a single process: whoever adds up or writes does so in one order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ioweather.core.errors import IoweatherError
from ioweather.engine.abilities import Renewable, place_of, workers_of

T = TypeVar("T")

# A task whose worker died this often is taken to be the cause.
DEATHS_BORNE = 3
# Per worker: one that it runs, one that waits for it, one whose result waits for its turn.
_IN_FLIGHT = 3
# How often it is asked whether there is still somebody to work, while a result is awaited.
_LOOK_SECONDS = 10.0


class WorkersDied(IoweatherError):
    """Over one task, time and again, and nobody said what to do then."""


class TaskLost(BrokenExecutor):
    """The executor has tried a task on several workers, and each of them died."""


@dataclass
class _Sent(Generic[T]):
    arguments: tuple[Any, ...]
    future: Future[T] | None  # None: to be sent again
    deaths: int = 0
    is_alone: bool = False  # nothing else is under way: if its workers die now, it is the cause


def in_order(
    executor: Executor,
    task: Callable[..., T],
    inputs: Iterable[tuple[Any, ...]],
    *,
    in_flight: int | None = None,
    lost: Callable[..., T] | None = None,
) -> Iterator[T]:
    """task(*input) for each input, in that order; never more than `in_flight` begun, so inputs may be endless.

    A task whose worker dies is run again. One that kills every worker gives `lost(*input)`, in this process, or
    else ends the work. Leaving the iterator cancels what has not begun.
    """
    waiting: deque[_Sent[T]] = deque()
    source = iter(inputs)
    exhausted = False
    try:
        while True:
            width = in_flight or _width(executor)
            # After a death, whoever was under way then goes alone, so that the next death has one cause.
            while not exhausted and len(waiting) < width and all(sent.future for sent in waiting):
                try:
                    arguments = next(source)
                except StopIteration:
                    exhausted = True
                else:
                    waiting.append(_Sent(arguments, _submit(executor, task, arguments)))
            if not waiting:
                return
            head = waiting[0]
            try:
                if head.future is None:
                    head.is_alone = True
                    head.future = _submit(executor, task, head.arguments)
                while not wait((head.future,), _LOOK_SECONDS).done:
                    workers_of(executor)
                result = head.future.result()
            except TaskLost:
                if not head.is_alone:
                    _go_alone(waiting)
                    continue
                result = _given_up(head, lost)
            except BrokenExecutor:
                _send_again(executor, waiting)
                if head.deaths < DEATHS_BORNE:
                    continue
                result = _given_up(head, lost)
            waiting.popleft()
            del head
            yield result
    finally:
        for sent in waiting:
            if sent.future is not None:
                sent.future.cancel()


def _width(executor: Executor) -> int:
    return 1 if place_of(executor) == "process" else _IN_FLIGHT * workers_of(executor)


def _submit(executor: Executor, task: Callable[..., T], arguments: tuple[Any, ...]) -> Future[T]:
    try:
        return executor.submit(task, *arguments)
    except BrokenExecutor as error:  # it broke under an earlier task: this one has its turn when that is seen
        broken: Future[T] = Future()
        broken.set_exception(error)
        return broken


def _send_again(executor: Executor, waiting: deque[_Sent[T]]) -> None:
    waiting[0].deaths += 1
    if not isinstance(executor, Renewable):
        waiting[0].deaths = DEATHS_BORNE
        return
    executor.renew()
    for sent in waiting:
        if sent.future is not None and (sent.future.cancelled() or sent.future.exception() is not None):
            sent.future = None


def _go_alone(waiting: deque[_Sent[T]]) -> None:
    """Who was lost may only have shared a worker with the cause. What is under way ends; then they go one by one."""
    wait(sent.future for sent in waiting if sent.future is not None)
    for sent in waiting:
        if sent.future is not None and isinstance(sent.future.exception(), TaskLost):
            sent.future, sent.is_alone = None, True


def _given_up(sent: _Sent[T], lost: Callable[..., T] | None) -> T:
    if lost is None:
        raise WorkersDied(
            f"A worker died over the same piece of work {DEATHS_BORNE} times (killed, or out of memory).",
            hint="Give each worker more memory, then run the same command again: it goes on from what is in.",
        ) from None
    return lost(*sent.arguments)
