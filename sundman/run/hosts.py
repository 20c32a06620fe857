"""Several processes that do one run together, each with devices of its own.

All of them run the same script and come to the same calls in the same order; what they tell each
other goes through JAX's collectives. Only the first one makes files that are not of its own chains,
and only it tells watchers how the run goes. A process that dies closes its connections, and the
others stop at their next word to it.

JAX itself ends a process, by an abort and many lines, when it finds out before we do; a small
process beside it then says in one sentence what has happened.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

Result = TypeVar("Result")


class HostLostError(RuntimeError):
    """Another process of the run is gone or cannot be reached; a stored run can be resumed."""


_SAY = "import sys; sys.stdin.buffer.read() or sys.stderr.write(sys.argv[1] + chr(10))"
_LONGEST_END = 86_400  # seconds that processes wait for the first one to finish its report
_witness: list[subprocess.Popen[bytes]] = []


def connect(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    timeout: int = 100,
) -> None:
    """Make this process one of several, before JAX is used for anything.

    Args:
      coordinator: HOST:PORT of the first process; None to find all three in the environment of
        Slurm, Open MPI, Kubernetes or a TPU pod.
      processes: how many there are.
      process: the number of this one, from 0.
      timeout: seconds to wait for the others, now and when one of them falls silent.

    Raises:
      HostLostError: if the coordinator does not answer.
      ValueError: if the arguments make no sense.
    """
    given = (coordinator, processes, process)
    if None in given and given != (None, None, None):
        raise ValueError(
            "coordinator, num-processes and process-id go together; got "
            f"coordinator={coordinator}, num-processes={processes}, process-id={process}"
        )
    if coordinator is not None and processes is not None and process is not None:
        if not 0 <= process < processes:
            raise ValueError(
                f"process-id must be from 0 to num-processes - 1 = {processes - 1}, got {process}"
            )
        host, colon, port = coordinator.rpartition(":")
        if not (host and colon and port.isdigit() and 0 < int(port) < 2**16):
            raise ValueError(
                f"coordinator must be HOST:PORT, such as node1:7000; got {coordinator}"
            )
        if process > 0:
            _wait_for(host, int(port), timeout)
    which = "a process" if process is None else f"process {process} of {processes}"
    sentence = (
        f"sundman: {which} of the run was ended: it was killed, or another one died, could not be "
        f"reached or did not come in {timeout} seconds. What was stored is safe: start all "
        "processes again with the same command to go on"
    )
    say = [sys.executable, "-S", "-E", "-c", _SAY, sentence]
    _witness.append(subprocess.Popen(say, stdin=subprocess.PIPE, start_new_session=True))
    atexit.register(dismiss_witness)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=timeout,
            heartbeat_timeout_seconds=timeout,
            shutdown_timeout_seconds=_LONGEST_END,
        )
    except (RuntimeError, ValueError) as error:
        dismiss_witness()
        raise ValueError(
            f"this process cannot be made one of several: {error}; give --coordinator, "
            "--num-processes and --process-id"
        ) from error


def _wait_for(host: str, port: int, timeout: float) -> None:
    """Return when the coordinator listens."""
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise HostLostError(
                    f"the coordinator {host}:{port} does not answer after {timeout} seconds "
                    f"({error}): start process 0 there, or mend the address"
                ) from None
        time.sleep(0.2)


def dismiss_witness() -> None:
    """Say nothing: the process ends in an orderly way, or has said itself what happened."""
    for beside in _witness:
        with suppress(OSError):
            assert beside.stdin is not None
            beside.stdin.write(b".")
            beside.stdin.close()
        beside.wait()
    _witness.clear()


def have_the_last_word() -> None:
    """Let nothing but Python write to the standard error from now on.

    JAX has many lines to say when another process dies, also while this one says it in a sentence.
    """
    if jax.distributed.is_initialized():
        sys.stderr.flush()
        own = os.fdopen(os.dup(2), "w", buffering=1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = own


def several() -> bool:
    """Whether this process is one of several."""
    return jax.distributed.is_initialized() and jax.process_count() > 1


def is_first() -> bool:
    """Whether this is the process that speaks for all."""
    return not several() or jax.process_index() == 0


@contextmanager
def talking() -> Generator[None]:
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


def from_first(content: bytes) -> bytes:
    """What the first process has, in every process.

    Args:
      content: of the first process; those of the others are not looked at.

    Returns:
      It.
    """
    if not several():
        return content
    room = np.zeros(highest(len(content) if is_first() else 0)[0], np.uint8)
    if is_first():
        room[:] = np.frombuffer(content, np.uint8)
    with talking():
        return np.asarray(multihost_utils.broadcast_one_to_all(room)).tobytes()


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
