"""As many steps as it takes: a run that ends when it has 400 effective draws, then made longer.

The banana needs an unknown number of steps. ``until`` ends the run when U and both coordinates have
enough effective draws and the chains agree, or after a minute; ``steps`` is the most it may take.
On disk it can be killed and started again at any moment, and stops at the same place.

    python examples/until.py runs/banana
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax

import sundman


def main(path: str | Path, ess: float = 400.0) -> sundman.Draws:
    """Sample until it is done, say what ended the run, and ask for four times as much."""
    target, rule = sundman.targets.banana(), sundman.until(ess=ess, rhat=1.02, seconds=60)
    sampler = sundman.baoab(0.2, gamma=1.0)
    draws = sundman.sample(
        target, sampler, key=jax.random.key(0), chains=4, steps=500_000, until=rule, store=path
    )
    print(draws.verdict)  # has the rule that ended it, and its numbers
    print(f"E[x] = {draws.mean()}")
    more = sundman.extend(path, steps=500_000, until=sundman.until(ess=4 * ess))
    print(more.ended)
    print(f"E[x] = {more.mean()}: half the error")
    return more


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["runs/banana"])
