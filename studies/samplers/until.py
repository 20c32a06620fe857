"""What stopping by a rule does to errors, and what looking costs.

    python -m studies.samplers.until

Four chains of a Gaussian autoregression, whose mean is 0 and whose effective number of draws is
known, are looked at as a run is and stopped by a rule. Beside them are chains of the same average
length, which was fixed before. For each: how many truly effective draws there were at the end, how
wide the means are in units of the standard error that the library states, and how often a 95%
interval has the truth in it. Then whole runs with a rule that is never met, by the same runs
without one, in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
from scipy.signal import lfilter

import sundman
from sundman import estimate
from sundman.run import schedule
from sundman.run.stopping import _Trace

CHAINS, LONGEST, CORRELATION = 4, 12_000, 0.9
RULES = {
    "ess=100": (100.0, math.inf),
    "ess=400": (400.0, math.inf),
    "ess=400, rhat=1.01": (400.0, 1.01),
    "rhat=1.01": (0.0, 1.01),
}


def chains(rng: np.random.Generator) -> np.ndarray:
    """(chain, draw), in the stationary law of unit variance."""
    rho = CORRELATION
    noise = rng.normal(size=(CHAINS, LONGEST)) * math.sqrt(1 - rho**2)
    start = rng.normal(size=(CHAINS, 1))
    return lfilter([1.0], [1.0, -rho], noise, zi=rho * start)[0]


def stopped_at(x: np.ndarray, ess: float, rhat: float) -> int:
    """How many draws there are when the rule is met, looked at as a run is."""
    spec = SimpleNamespace(chains=CHAINS, target=None, collect=None)
    trace, weight, done = _Trace(spec, ess), np.ones(x.shape), 0
    pieces = schedule.pieces(0, LONGEST, 1, schedule.Sizes(6_400, 1, growing=True))
    looks = schedule.looks(pieces)
    for piece in pieces:
        part = slice(done, done := done + piece.draws)
        trace.add(x[:, part, None], weight[:, part], x[:, part])
        look = trace.look("", done) if done in looks else None
        if look is not None and look.ess >= ess and look.rhat <= rhat:
            break
    return done


def score(x: np.ndarray) -> float:
    """How far the mean is from the truth, in stated standard errors."""
    mean = estimate.mean(
        sundman.Draws(x[..., None], np.ones(x.shape), {}, np.full(CHAINS, -1), None)
    )
    return float(mean.value[0] / mean.error[0])


def errors(rule: tuple[float, float], number: int) -> dict:
    lengths, scores, fixed = [], [], []
    for seed in range(number):
        x = chains(np.random.default_rng(seed))
        lengths.append(stopped_at(x, *rule))
        scores.append(score(x[:, : lengths[-1]]))
    usual = int(np.mean(lengths))
    for seed in range(number):
        fixed.append(score(chains(np.random.default_rng(10**6 + seed))[:, :usual]))
    true = np.asarray(lengths) * CHAINS * (1 - CORRELATION) / (1 + CORRELATION)

    def summary(z: list[float]) -> dict:
        covered = float(np.mean(np.abs(z) < 1.96))
        return {
            "sd of (mean - truth) / error": float(np.std(z)),
            "its error": float(np.std(z)) / math.sqrt(2 * number),
            "coverage of 95%": covered,
            "its error ": math.sqrt(covered * (1 - covered) / number),
        }

    return {
        "runs": number,
        "draws per chain": usual,
        "true effective draws": [float(q) for q in np.quantile(true, (0.05, 0.5, 0.95))],
        "stopped": summary(scores),
        "fixed": summary(fixed),
    }


def cost(kind: str, rounds: int) -> dict:
    """Seconds of a run with a rule that is never met, by those without, in turn."""
    never = sundman.until(ess=400, rhat=1 + 1e-9)
    if kind == "star":
        target, arguments = sundman.targets.star(), {"chains": 4, "steps": 1_000_000}
        sampler = sundman.sgld(1e-4)
    elif kind == "gaussian, d = 100":
        target, arguments = sundman.targets.gaussian(100), {"chains": 4, "steps": 200_000}
        sampler = sundman.sgld(1e-2)
    else:
        split = sundman.data.digits().train
        init = sundman.models.mlp_init(jax.random.key(0), [64, 50, 50, 10])
        target = sundman.Posterior(sundman.models.mlp_apply, data=tuple(split))
        arguments = {"chains": 4, "steps": 10_000, "thin": 10, "batch_size": 360, "init": init}
        sampler = sundman.sgld(target.time_step(0.01, kinetic=False))

    def seconds(until: sundman.Until | None) -> float:
        began = time.process_time()
        sundman.sample(
            target, sampler, key=jax.random.key(1), until=until, progress=False, **arguments
        )
        return time.process_time() - began

    seconds(None), seconds(never)
    ratios, times = [], []
    for number in range(rounds):
        order = (None, never) if number % 2 else (never, None)
        both = {until: seconds(until) for until in order}
        ratios.append(both[never] / both[None])
        times.append(both[None])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"rounds": rounds, "cpu seconds": statistics.median(times), "ratio": [low, middle, high]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    default = Path(__file__).parent / "results" / "until.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}

    def note(name: str, result: dict) -> None:
        results[name] = result
        options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(name, json.dumps(result))

    for text, rule in RULES.items():
        if text not in results:
            note(text, errors(rule, options.runs))
    for kind in ("star", "gaussian, d = 100", "digits"):
        if (name := f"cost, {kind}") not in results:
            note(name, cost(kind, options.rounds))


if __name__ == "__main__":
    main()
