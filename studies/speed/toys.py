"""Time per step on the star with every draw saved: sundman, BlackJAX, numba and torch loops.

    python -m studies.speed.toys [--rounds 9] [--steps 500000] [--cores 1]

Ours are calls of ``sundman.sample``, all they do included. BlackJAX leaves the loop over steps to
the user, so it is timed under ``lax.scan`` both ways one writes it: with the key split in the loop,
as in the loop of its documentation, and with all keys split before, the fastest way known to us.
The numba loops are described in ``peers/numba_loops.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

import sundman
from studies import report
from studies.speed.peers import blackjax_sgld, numba_loops, torch_toy
from studies.timing import Case, Ratio, arguments, keep_to, measure
from sundman import targets

H = 4e-4
STAR = targets.star()
SGLD = sundman.sgld(H)
SA_SGLD = sundman.sa_sgld(
    numba_loops.DTAU,
    alpha=numba_loops.ALPHA,
    m=numba_loops.LEAST,
    M=numba_loops.MOST,
    r=numba_loops.POWER,
    omega=numba_loops.OMEGA,
)
CHAINS = (2, 4, 8, 16, 24, 64, 256, 1000, 10_000)
IN_LOOP, BEFORE = "blackjax SGLD, key split in the loop", "blackjax SGLD, keys split before"
PUBLISHED, SCALAR = "numba, published kind", "numba, scalars"
RATIOS = (
    Ratio(IN_LOOP, "SA-SGLD", "higher", 25.0),
    Ratio(BEFORE, "SA-SGLD", "higher"),
    Ratio(PUBLISHED, "SA-SGLD", "higher", 8.0),
    Ratio(SCALAR, "SA-SGLD", "higher", 1.3),
    *(Ratio(f"SA-SGLD, {n} chains", "SA-SGLD", "lower", 1.0) for n in CHAINS[:-2]),
    Ratio("SA-SGLD, 1000 chains", "SA-SGLD", "lower", 0.2),
    Ratio("SA-SGLD", "SGLD", "lower", 1.3),
)


def ours(sampler: sundman.Sampler, steps: int, chains: int = 1) -> Case:
    def run(number: int) -> sundman.Draws:
        key = jax.random.key(number)
        return sundman.sample(STAR, sampler, key=key, steps=steps, chains=chains, progress=False)

    return Case(run, steps * chains)


def theirs(steps: int, split_before: bool) -> Case:
    scan = blackjax_sgld.toy(STAR.potential, STAR.start, H, steps, split_before)
    return Case(lambda number: jax.block_until_ready(scan(jax.random.key(number))), steps)


def numba_case(loop: Callable[..., Any], steps: int, *more: int) -> Case:
    return Case(lambda number: loop(steps, number, *more), steps)


def contestants(steps: int) -> dict[str, Case]:
    fewer = max(1, steps // 5)
    chains = {
        f"SA-SGLD, {chains} chains": ours(SA_SGLD, max(1, 2 * steps // chains), chains)
        for chains in CHAINS
    }
    return {
        "SA-SGLD": ours(SA_SGLD, steps),
        "SGLD": ours(SGLD, steps),
        **chains,
        BEFORE: theirs(steps, split_before=True),
        IN_LOOP: theirs(fewer, split_before=False),
        SCALAR: numba_case(numba_loops.scalar, steps),
        PUBLISHED: numba_case(numba_loops.published, steps, 2),
        f"{PUBLISHED}, one gradient": numba_case(numba_loops.published, steps, 1),
        "torch loop": Case(lambda _: torch_toy.sa_sgld(max(1, steps // 500)), max(1, steps // 500)),
    }


def main() -> None:
    parser = arguments(__doc__, "toys", rounds=9)
    parser.add_argument("--steps", type=int, default=500_000)
    options = parser.parse_args()
    keep_to(options.cores)
    cases = contestants(options.steps)
    spent = measure(cases, options.rounds)
    report.publish(options, cases, spent, RATIOS, "Star, every draw saved", "ns", "SA-SGLD")


if __name__ == "__main__":
    main()
