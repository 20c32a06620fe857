"""Stored trajectories of every sampler: a change of the code that changes a path shows here.

    python tests/golden/trajectories.py NAME ...  # add those of a new sampler, or write them anew

They were made by version 0.1.0, that of ``ubu`` by 0.2.0, which brought it (fixed keys, 500 steps,
every tenth kept). A path may be written anew only for a reason that is stated with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import models, priors, targets

sys.path.insert(0, str(Path(__file__).parents[1]))
from samplers import SAMPLERS

FILE = Path(__file__).with_name("trajectories.npz")
STEPS, THIN, CHAINS = 500, 10, 2

# target, h overdamped, h kinetic, temperature, typical squared gradient
TOYS = {
    "star": (targets.star, 2e-4, 5e-3, 1.0, 520.0),
    "muller-brown": (targets.muller_brown, 5e-4, 1e-2, 2.0, 388.0),
    "gaussian": (lambda: targets.gaussian(10, condition=100.0), 2e-3, 2e-2, 1.0, 500.0),
}


def toy(name: str, sampler: str) -> dict[str, np.ndarray]:
    """Positions and weights of a sampler on a target with exact gradients."""
    make, overdamped, kinetic, temperature, g_ref = TOYS[name]
    target = make()
    row = SAMPLERS[sampler]
    built = row.build(kinetic if row.kinetic else overdamped, temperature, g_ref)
    dim = 10 if name == "gaussian" else 2
    start = 0.1 * jax.random.normal(jax.random.key(7), (CHAINS, dim))
    if name == "muller-brown":
        start = start + jnp.array([-0.944, -0.151])
    draws = sundman.sample(
        target.potential, built, key=jax.random.key(1), init=start, per_chain=True, chains=CHAINS,
        draws=STEPS // THIN, thin=THIN, progress=False,
    )  # fmt: skip
    return {"values": np.asarray(draws.values), "weight": np.asarray(draws.weight)}


def posterior() -> sundman.Posterior:
    """Digits, 64-64-10, per-tensor horseshoe."""
    data = sundman.data.digits()
    rules = {
        "kernel": priors.horseshoe(1.41, fan_in="leading"),
        "bias": priors.horseshoe(1.0),
    }
    return sundman.Posterior(models.mlp_apply, prior=rules, data=tuple(data.train))


def network(sampler: str, model: sundman.Posterior) -> dict[str, np.ndarray]:
    """Potential, gradient norm and a few weights of a sampler on a network with minibatches."""
    row = SAMPLERS[sampler]
    h = 2e-3 / model.size
    built = row.build(h**0.5 if row.kinetic else h, 1.0, 0.3 * model.size**2)

    def some(position):
        leaves = jax.tree.leaves(position)
        return jnp.concatenate([leaf.ravel()[:2] for leaf in leaves])

    draws = sundman.sample(
        model, built, key=jax.random.key(2), init=models.mlp_init(jax.random.key(3), [64, 64, 10]),
        draws=STEPS // THIN, thin=THIN, batch_size=32, collect=some, progress=False,
    )  # fmt: skip
    return {
        "values": np.asarray(draws.values),
        "weight": np.asarray(draws.weight),
        "potential": np.asarray(draws.stats["potential"]),
    }


def cases() -> Iterator[tuple[str, str, str]]:
    """(where, sampler, noise path)."""
    for sampler in SAMPLERS:
        for name in TOYS:
            if sampler == "contour_sgld" and name == "muller-brown":
                continue  # its row flattens energies from 0 on
            yield name, sampler, "xla"
    for sampler in SAMPLERS:
        if sampler.startswith(("cyclical", "contour", "replica")):
            continue  # their rows are made for toys
        yield "network", sampler, "xla"
        yield "network", sampler, "native"


def run(where: str, sampler: str, path: str, model: sundman.Posterior) -> dict[str, np.ndarray]:
    """The trajectory of one case."""
    before = sundman.config()["noise"]
    sundman.config(noise=path)
    try:
        return network(sampler, model) if where == "network" else toy(where, sampler)
    finally:
        sundman.config(noise=before)


def stored_cases() -> list[tuple[str, str, str]]:
    """(where, sampler, noise path) of what the file has."""
    names = dict.fromkeys(key.rsplit("/", 1)[0] for key in np.load(FILE).files)
    return [tuple(name.split("/")) for name in names]


def main(samplers: Sequence[str]) -> None:
    """Write those of some samplers; the others stay as they are."""
    if not samplers:
        raise SystemExit(__doc__)
    model, stored = posterior(), dict(np.load(FILE))
    for where, sampler, path in cases():
        if sampler not in samplers:
            continue
        try:
            result = run(where, sampler, path, model)
        except ValueError as error:
            print(where, sampler, path, "left out:", error)
            continue
        for name, array in result.items():
            stored[f"{where}/{sampler}/{path}/{name}"] = array
        print(where, sampler, path, *(np.isfinite(a).all() for a in result.values()), flush=True)
    np.savez_compressed(FILE, **stored)


if __name__ == "__main__":
    main(sys.argv[1:])
