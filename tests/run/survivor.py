"""A run that is there to be killed: ``python survivor.py toy|bnn PATH``, again to go on."""

import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman.run import disk_sink as stored
from sundman.run import schedule as blocks
from sundman.store import directory as runs


def square(x):
    return jnp.sum(x**2)


def toy() -> dict:
    sampler = sundman.samadams(0.02, gamma=2.0, alpha=0.5, r=0.5)
    return {
        "target": sundman.targets.star(),
        "sampler": sampler,
        "init": None,
        "chains": 3,
        "draws": 240,
        "thin": 500,
        "online": square,
    }


def bnn() -> dict:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 8)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    apply, params = sundman.models.mlp_apply, sundman.models.mlp_init(jax.random.key(1), (8, 20, 2))
    posterior = sundman.Posterior(apply, data=(x, y), prior=sundman.priors.horseshoe())
    return {
        "target": posterior,
        "sampler": sundman.sa_sgld(1e-4, alpha=100.0, m=0.1, M=10.0, r=0.5),
        "init": params,
        "chains": 1,
        "draws": 40,
        "thin": 200,
        "batch_size": 64,
    }


def main(kind: str, path: str) -> None:
    blocks._OPERATIONS = 2e6  # a block is a few draws, so that there is much to interrupt
    stored._FLUSH_SECONDS = 0.0
    if runs.exists(Path(path)):
        sundman.resume(path, checkpoint_every=7)
        return
    arguments = {"toy": toy, "bnn": bnn}[kind]()
    target, sampler = arguments.pop("target"), arguments.pop("sampler")
    sundman.sample(
        target,
        sampler,
        key=jax.random.key(5),
        burn_in=400,
        store=path,
        checkpoint_every=7,
        **arguments,
    )


if __name__ == "__main__":
    began = time.perf_counter()
    main(*sys.argv[1:])
    print(f"{time.perf_counter() - began:.2f} s")
