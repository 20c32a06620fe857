"""Which adaptive Leimkuhler-Matthews? Four ways to let dt vary, measured against exact moments.

With p the step before, h the step the clock gives for G(X_n), R the carried and S the new noise:

    same_step:       X <- X - h G + sqrt(T h / 2) (R + S)
    own_scale:       X <- X - h G + sqrt(T p / 2) R + sqrt(T h / 2) S
    post_processed:  X <- X - h G + (sqrt(2 T h) - sqrt(T p / 2)) R + sqrt(T h / 2) S
    predicted:       X <- X - p G + sqrt(T p / 2) R + sqrt(T h / 2) S,  X_n weighted with p

Each is Leimkuhler-Matthews at a constant step. Prints the relative bias of two moments of star
and of the 1D quartic, for each lag, memory and mean step, and writes them as JSON.

    python -m studies.samplers.lm_variants --steps 400000
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import KW_ONLY
from pathlib import Path

import jax
import jax.numpy as jnp

import sundman
from sundman import clocks, targets
from sundman.integrators import Integrator
from sundman.integrators.base import per_leaf, zeros_per_leaf
from sundman.noise import gaussian
from sundman.value import static

HALF = {
    "same_step": lambda p, h: (h, jnp.sqrt(h / 2), jnp.sqrt(h / 2)),
    "own_scale": lambda p, h: (h, jnp.sqrt(p / 2), jnp.sqrt(h / 2)),
    "post_processed": lambda p, h: (h, jnp.sqrt(2 * h) - jnp.sqrt(p / 2), jnp.sqrt(h / 2)),
    "predicted": lambda p, h: (p, jnp.sqrt(p / 2), jnp.sqrt(h / 2)),
}


class Variant(Integrator):
    """Leimkuhler-Matthews at T = 1 with the given treatment of a varying step."""

    _: KW_ONLY
    variant: str = static()

    def init(self, params):
        """No noise carried, no step before."""
        return jnp.zeros_like(params), zeros_per_leaf(params)

    def move(self, stream, grads, state, params, dt):
        """The variant's step."""
        carried, before = state
        step, fresh = per_leaf(dt, params), gaussian(stream, params)
        drift, old, new = HALF[self.variant](before, step)
        return -drift * grads + old * carried + new * fresh, (fresh, step)


def measure(target, observables, variant, lag, a, dtau, g_ref, steps, chains=64):
    """Relative bias and its error for each observable, mean step and number of lost chains."""
    clock = clocks.scale_free(dtau, g_ref=g_ref, a=a, lag=lag)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        warnings.simplefilter("ignore", sundman.TrustWarning)
        draws = sundman.sample(
            target,
            sundman.compose(Variant(variant=variant), clock),
            init=target.exact(jax.random.key(1), chains),
            key=jax.random.key(2),
            chains=chains,
            steps=steps,
            thin=2,
            collect=lambda x: jnp.stack([target.observables[name](x) for name in observables]),
            weighting="arriving" if variant == "predicted" else "leaving",
        )
    found = sundman.estimate.mean(draws)
    result = {
        "target": target.name,
        "variant": variant,
        "lag": lag,
        "a": a,
        "dtau": dtau,
        "mean_dt": float(draws.stats["dt"].mean()),
        "lost": int(draws.diverged.sum()),
    }
    for i, name in enumerate(observables):
        truth = target.truth[name]
        result[name] = [float(found.value[i] / truth - 1), float(found.error[i] / truth)]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400_000)
    default = Path(__file__).parent / "results" / "lm_variants.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    star, quartic = targets.star(), targets.quartic()
    quartic_grad2 = 1 + 3 * quartic.truth["x2"]
    cases = [
        (star, ("x2y2", "virial"), star.truth["grad2"], a, dtau)
        for a in (0.01, 0.1)
        for dtau in (3e-4, 6e-4, 1.2e-3)
    ] + [
        (quartic, ("x2", "virial"), quartic_grad2, a, dtau)
        for a in (0.02, 50.0)
        for dtau in (0.05, 0.1)
    ]
    results = []
    for target, observables, g_ref, a, dtau in cases:
        for variant in HALF:
            lags = ("none",) if variant == "predicted" else ("none", "full", "guarded")
            for lag in lags:
                row = measure(target, observables, variant, lag, a, dtau, g_ref, options.steps)
                results.append(row)
                shown = "  ".join(
                    f"{name} {row[name][0]:+.4f}±{row[name][1]:.4f}" for name in observables
                )
                print(
                    f"{target.name:8s} a={a:<5g} dtau={dtau:<7g} {variant:15s} {lag:8s} "
                    f"mean dt {row['mean_dt']:.3g}  {shown}  lost {row['lost']}",
                    flush=True,
                )
    options.output.parent.mkdir(exist_ok=True)
    command = f"python -m studies.samplers.lm_variants --steps {options.steps}"
    options.output.write_text(json.dumps({"command": command, "results": results}, indent=1))


if __name__ == "__main__":
    main()
