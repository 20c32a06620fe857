"""Several processes that do one run together, each with devices of its own.

All of them run the same script and come to the same calls in the same order; what they tell each
other goes through JAX's collectives. Only the first one makes files that are not of its own chains,
and only it tells watchers how the run goes. A process that dies closes its connections, and the
others stop at their next word to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

Result = TypeVar("Result")


class HostLostError(RuntimeError):
    """Another process of the run is gone or cannot be reached; a stored run can be resumed."""


def several() -> bool:
    """Whether this process is one of several."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the process that speaks for all."""
    return jax.process_index() == 0


@contextmanager
def talking() -> Iterator[None]:
    """Turn the error of a collective inside into a :class:`HostLostError`."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if not several() or "RESOURCE_EXHAUSTED" in str(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise HostLostError(
            f"another of the {jax.process_count()} processes of this run has stopped or cannot be "
            f"reached, so process {jax.process_index()} stops, too ({reason:.200}). What was "
            "stored is safe: start all processes again with resume=True, or with sundman.resume"
        ) from error


def gather(value: np.ndarray) -> np.ndarray:
    """The arrays of all processes, of one shape, along a new first axis."""
    if not several():
        return value[None]
    with talking():
        return np.asarray(multihost_utils.process_allgather(value))


def highest(*numbers: int) -> list[int]:
    """The highest that any process gives for each number, so that all do the same."""
    return gather(np.asarray(numbers, np.int32)).max(axis=0).tolist()


def texts(text: str) -> list[str]:
    """What each process says, in order."""
    content = np.frombuffer(text.encode(), np.uint8)
    lengths = gather(np.asarray(len(content), np.int32))
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[: len(content)] = content
    every = gather(padded)
    return [row[:n].tobytes().decode() for row, n in zip(every, lengths, strict=True)]


def on_first(work: Callable[[], Result]) -> Result | None:
    """``work()`` by the first process while the others wait; they have None. If it fails, all do.

    Args:
      work: what is to be done once.

    Returns:
      What it returns, in the first process.
    """
    if not several():
        return work()
    result = error = None
    if is_first():
        try:
            result = work()
        except BaseException as raised:
            error = raised
    said = texts("" if error is None else str(error) or type(error).__name__)[0]
    if error is not None:
        raise error
    if said:
        raise HostLostError(f"the first process of the run has stopped: {said}")
    return result


def check_alike(differences: Callable[[str], list[str]], description: str) -> None:
    """Raise, in every process, if one of them is about to do another run.

    Args:
      differences: says how the run that a description is of differs from this process's.
      description: of this process's run.

    Raises:
      ValueError: that says which process differs from the first, and in what.
    """
    first = texts(description)[0]
    differing = differences(first)
    for number, said in enumerate(texts("; ".join(differing[:3]))):
        if said:
            raise ValueError(
                f"process {number} is about to do another run than process 0: {said}. All "
                "processes need the same code, settings and data"
            )
