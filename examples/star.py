"""Samplers side by side on the star, whose moments are known: U = x^2 + 1000 x^2 y^2 + y^2.

Its arms become narrow as they go out, so that no fixed step suits all of it. SGLD and
Leimkuhler-Matthews at a fixed step, SA-SGLD and SA-LM on the adaptive clock at about the same mean
step, and the sampler that tunes itself. Each mean stands beside the exact value.

    python examples/star.py
"""

from __future__ import annotations

import jax

import sundman

STEP = 4e-4


def samplers(target: sundman.targets.Target) -> dict[str, sundman.Sampler | sundman.Auto]:
    """By name; the clocks remember a hundred steps."""
    clock = {"alpha": 0.01 / STEP, "m": 0.1, "M": 10.0, "r": 0.5, "psi": "scale_free"}
    clock |= {"omega": target.truth["grad2"], "lag": "guarded"}
    return {
        "SGLD": sundman.sgld(STEP),
        "SA-SGLD": sundman.sa_sgld(STEP, **clock),
        "LM": sundman.lm(STEP),
        "SA-LM": sundman.sa_lm(STEP, **clock),
        "self-tuned": sundman.auto(),
    }


def main(steps: int = 200_000, chains: int = 16) -> dict[str, sundman.Draws]:
    """Sample with each, and print its mean step, its means and what its verdict says."""
    target, runs = sundman.targets.star(), {}
    print("exact        ", *(f"E[{name}] = {target.truth[name]:.4g}" for name in ("r2", "x2y2")))
    for name, sampler in samplers(target).items():
        draws = sundman.sample(
            target, sampler, key=jax.random.key(0), chains=chains, steps=steps, thin=10
        )
        print(f"{name:12s} mean step {draws.stats['dt'].mean():.3g}")
        for moment in ("r2", "x2y2"):
            found = sundman.estimate.mean(draws, target.observables[moment])
            off = 100 * (found.value / target.truth[moment] - 1)
            print(f"  E[{moment}] = {found.value:.4g} ± {found.error:.1g} ({off:+.1f}%)")
        print(f"  {draws.verdict}")
        runs[name] = draws
    return runs


if __name__ == "__main__":
    main()
