"""When a sampler with stages is drawn from: not while it explores, nor in the burn-in."""

from __future__ import annotations

from collections.abc import Iterator

from sundman.clocks import Stages


def _sampling(stages: Stages, burn_in: int) -> Iterator[tuple[int, int]]:
    """The first step of each sampling stage after the burn-in, and the step where it ends."""
    begin = burn_in // stages.cycle * stages.cycle
    while True:
        yield max(begin + stages.explore, burn_in), begin + stages.cycle
        begin += stages.cycle


def draws_within(stages: Stages, burn_in: int, steps: int, thin: int) -> int:
    """How many draws there are in ``steps`` steps after the burn-in."""
    total, last = 0, burn_in + steps
    for first, end in _sampling(stages, burn_in):
        if first >= last:
            break
        total += (min(end, last) - first) // thin
    if total == 0:
        raise ValueError(
            f"no draw would be kept: the {steps} steps after burn_in={burn_in} end before a "
            f"sampling stage has {thin} (cycle={stages.cycle}, explore={stages.explore})"
        )
    return total


def turns(stages: Stages, burn_in: int, draws: int, thin: int) -> list[tuple[int, int]]:
    """(steps without draws, draws), again and again until there are ``draws`` of them."""
    found, now = [], 0
    for first, end in _sampling(stages, burn_in):
        count = min((end - first) // thin, draws)
        if count:
            found.append((first - now, count))
            now, draws = first + count * thin, draws - count
        if not draws:
            return found
    raise AssertionError("stages go on for ever")


def check_stages(
    stages: Stages, burn_in: int, steps: int | None, thin: int, thin_time: float | None
) -> None:
    """Raise if no draw would be taken."""
    if thin_time is not None:
        raise ValueError("thin_time does not go with a cyclical clock: its time is not one run")
    if steps is not None and stages.cycle > burn_in + steps:
        raise ValueError(
            f"the cycle is longer than the run: cycle={stages.cycle} steps, and burn_in + steps = "
            f"{burn_in + steps}"
        )
    sampling = stages.cycle - stages.explore
    if thin > sampling:
        raise ValueError(
            f"no draw would be kept: thin={thin}, and the sampling stage of a cycle has "
            f"{sampling} steps (cycle={stages.cycle}, explore={stages.explore})"
        )
