"""Find a good step in one run: every chain has a step of its own. python examples/step_sweep.py

A sampler is a value whose numbers are the leaves of a pytree, so ``jax.vmap`` of a recipe over an
array of steps is one sampler with a step for each chain.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import sundman

STAR = sundman.targets.star()


def sweep(sampler: sundman.Sampler, steps: int) -> sundman.Draws:
    """One run with as many chains as the sampler has settings, and a line for each."""
    draws = sundman.sample(
        STAR,
        sampler,
        key=jax.random.key(0),
        chains=sampler.stacked,
        burn_in=steps // 10,
        steps=steps,
        thin=10,
    )
    sundman.diagnose(draws)
    return draws


def main(steps: int = 400_000) -> tuple[sundman.Draws, sundman.Draws]:
    """SGLD at four steps, of which one is too long, and BAOAB at four frictions."""
    by_step = jax.vmap(sundman.sgld)(jnp.array([1e-4, 3e-4, 9e-4, 2.7e-3]))
    by_friction = jax.vmap(lambda g: sundman.baoab(0.01, gamma=g))(jnp.array([0.3, 1.0, 3.0, 10.0]))
    return sweep(by_step, steps), sweep(by_friction, steps)


if __name__ == "__main__":
    draws, _ = main()
    print("step of chain 2:", draws.settings_of(2)["h"])
    print("its E[x^2 y^2]: ", sundman.estimate.mean(draws.chain(2), STAR.observables["x2y2"]))
    print("the exact value:", STAR.truth["x2y2"])
