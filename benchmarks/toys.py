"""Time per step on the star, through ``sundman.sample``, beside BlackJAX's SGLD.

Every case saves every draw. The cases take turns, round after round, and each ratio is the
median of its values within a round, so that a machine busy with other work slows all of them
alike. BlackJAX leaves the loop over steps to the user, so it is timed under ``lax.scan`` both
ways one writes it: with all keys split before the loop, the fastest way known to us, and with
the key split inside the loop.

    python benchmarks/toys.py --rounds 15 --steps 500000

Writes ``benchmarks/results/toys.json``; exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import blackjax
import jax
import numpy as np
from jax import Array, lax
from rich.console import Console
from rich.table import Table

import sundman
from sundman import targets

RESULTS = Path(__file__).parent / "results" / "toys.json"
CHAINS = 1000
H = 4e-4
STAR = targets.star()
SGLD = sundman.sgld(H)
SA_SGLD = sundman.sa_sgld(1e-3, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0)


class Case(NamedTuple):
    """Something to time, and how many steps of one chain a call makes."""

    run: Callable[[Array], Any]
    steps: int


class Goal(NamedTuple):
    """A ratio of two cases' times per step, and its bound."""

    slow: str
    fast: str
    least: float | None = None
    most: float | None = None

    def met(self, ratio: float) -> bool:
        """Whether the bound holds."""
        return (self.least is None or ratio >= self.least) and (
            self.most is None or ratio <= self.most
        )

    def bound(self) -> str:
        """The bound, in symbols."""
        return f">= {self.least:g}" if self.most is None else f"<= {self.most:g}"


GOALS = (
    Goal("blackjax sgld, key split in the loop", "sa_sgld", least=20.0),
    Goal("blackjax sgld, keys split before", "sa_sgld", least=20.0),
    Goal("sa_sgld", "sgld", most=1.3),
    Goal(f"sa_sgld, {CHAINS} chains", "sa_sgld", most=0.25),
)


def ours(sampler: sundman.Sampler, steps: int, chains: int = 1) -> Case:
    def run(key: Array) -> sundman.Draws:
        return sundman.sample(STAR, sampler, key=key, steps=steps, chains=chains)

    return Case(run, steps * chains)


def theirs(steps: int, split_before: bool) -> Case:
    algorithm = blackjax.sgld(lambda position, _: -jax.grad(STAR.potential)(position))

    def move(position: Array, key: Array) -> tuple[Array, Array]:
        return algorithm.step(key, position, (), H), position

    def split_and_move(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        position, key = carry
        key, now = jax.random.split(key)
        position, left = move(position, now)
        return (position, key), left

    @jax.jit
    def scan(key: Array) -> Any:
        if split_before:
            return lax.scan(move, STAR.start, jax.random.split(key, steps))
        return lax.scan(split_and_move, (STAR.start, key), None, length=steps)

    return Case(lambda key: jax.block_until_ready(scan(key)), steps)


def measure(cases: dict[str, Case], rounds: int) -> dict[str, np.ndarray]:
    """Nanoseconds per step of one chain, one number a round; a first round is not counted."""
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            start = time.perf_counter()
            case.run(jax.random.key(number))
            spent[name].append((time.perf_counter() - start) / case.steps * 1e9)
    return {name: np.array(values[1:]) for name, values in spent.items()}


def summary(values: np.ndarray) -> dict[str, float]:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return {
        "median": float(middle),
        "min": float(values.min()),
        "quarter": float(low),
        "three_quarters": float(high),
    }


def report(spent: dict[str, np.ndarray]) -> tuple[dict[str, Any], bool]:
    """Print both tables; the numbers in them, and whether every goal was met."""
    console = Console()
    table = Table(title="Star, every draw saved: ns per step of one chain", title_justify="left")
    for column in ("", "median", "min", "quartiles"):
        table.add_column(column, justify="left" if column == "" else "right")
    times = {name: summary(values) for name, values in spent.items()}
    for name, s in times.items():
        quartiles = f"{s['quarter']:.1f} to {s['three_quarters']:.1f}"
        table.add_row(name, f"{s['median']:.1f}", f"{s['min']:.1f}", quartiles)
    console.print(table)

    table = Table(title="Ratios within a round", title_justify="left")
    for column in ("", "median", "quartiles", "min / min", "goal", ""):
        table.add_column(column, justify="left" if column == "" else "right")
    ratios, passed = [], True
    for goal in GOALS:
        s = summary(spent[goal.slow] / spent[goal.fast])
        met = goal.met(s["median"])
        passed &= met
        best = times[goal.slow]["min"] / times[goal.fast]["min"]
        ratios.append(
            {"ratio": f"{goal.slow} / {goal.fast}", **s, "of_minima": best}
            | {"goal": goal.bound(), "met": met}
        )
        table.add_row(
            f"{goal.slow} / {goal.fast}",
            f"{s['median']:.2f}",
            f"{s['quarter']:.2f} to {s['three_quarters']:.2f}",
            f"{best:.2f}",
            goal.bound(),
            "met" if met else "[bold]missed[/bold]",
        )
    console.print(table)
    return {"ns_per_step": times, "ratios": ratios}, passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    cases = {
        "sa_sgld": ours(SA_SGLD, args.steps),
        "sgld": ours(SGLD, args.steps),
        f"sa_sgld, {CHAINS} chains": ours(SA_SGLD, max(1, 2 * args.steps // CHAINS), CHAINS),
        "blackjax sgld, keys split before": theirs(args.steps, split_before=True),
        "blackjax sgld, key split in the loop": theirs(args.steps, split_before=False),
    }
    numbers, passed = report(measure(cases, args.rounds))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    settings = {
        "rounds": args.rounds,
        "steps": args.steps,
        "device": jax.devices()[0].platform,
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "blackjax": blackjax.__version__,
    }
    args.output.write_text(json.dumps({"settings": settings, **numbers}, indent=1) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
