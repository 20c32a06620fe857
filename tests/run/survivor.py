"""A run that is there to be killed: ``python survivor.py KIND PATH``, again to go on.

With - for PATH the run is in memory, and KIND may be several, with + between them.
"""

import atexit
import hashlib
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


def edited(x):
    return jnp.sum(x**2) + 1e-2 * jnp.sum(x)


edited.__name__ = edited.__qualname__ = square.__name__  # as of two versions of a script


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


X = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
Y = (X @ np.ones(3)).astype(np.float32)


def linear(w, x):
    return x @ w


def regression(data=(X, Y)) -> sundman.Posterior:
    likelihood = sundman.likelihoods.gaussian(1.0)
    return sundman.Posterior(linear, data=data, likelihood=likelihood)


def star(sampler: sundman.Sampler, **settings) -> dict:
    """A run on the star of some 80,000 steps."""
    common = {
        "target": sundman.targets.star(),
        "init": None,
        "chains": 2,
        "draws": 160,
        "thin": 500,
    }
    return {**common, "sampler": sampler, **settings}


def rows(target, **settings) -> dict:
    """A run on a regression."""
    common = {"init": jnp.zeros(3), "chains": 2, "draws": 800, "thin": 50}
    return {**common, "target": target, "sampler": sundman.sgld(1e-4), **settings}


def streamed() -> dict:
    """Its batches have no name: the call is made again."""
    batches = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 60, 10)]
    return rows(regression(sundman.data.HostBatches(batches, size=60)), thin=20)


class Counted(sundman.data.ArrayBatches):
    """Counts the rows that it reads."""

    count = 0

    def _rows_of(self, rows):
        self.count += len(rows)
        return super()._rows_of(rows)


def shared_rows() -> dict:
    """One chain, and the rows of its batches over all devices."""
    batches = jax.tree_util.register_static(Counted)(X, Y, batch_size=20)
    atexit.register(lambda: print(f"{batches.count} rows were read"))
    mesh = jax.make_mesh((1, jax.device_count()), ("chain", "data"))
    return rows(regression(batches), chains=1, draws=60, thin=20, mesh=mesh)


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


def many_rows() -> sundman.Posterior:
    """Enough rows for a control variate, whose centre one process finds for all."""
    random = np.random.default_rng(2)
    x = random.normal(size=(6_000, 3)).astype(np.float32)
    y = (random.random(6_000) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)
    likelihood = sundman.likelihoods.bernoulli()
    return sundman.Posterior(linear, data=(x, y), likelihood=likelihood)


def until() -> dict:
    """Ends when its rule is met."""
    rule = sundman.until(ess=300, rhat=1.05)
    return star(sundman.sgld(0.05), target=bowl, init=jnp.ones(2), draws=9_000, thin=1, until=rule)


SA = sundman.sa_sgld(1e-3, alpha=25.0, m=0.1, M=10.0, r=0.5)
KINDS = {
    "short": lambda: {**toy(), "draws": 80},
    "toy": toy,
    "bnn": bnn,
    "timed": lambda: star(SA, draws=20_000, thin=1, thin_time=0.05),
    "collected": lambda: star(SA, collect=square, weighting="arriving", stats=("time",)),
    "stacked": lambda: star(jax.vmap(sundman.sgld)(jnp.array([1e-4, 2e-4]))),
    "replicas": lambda: star(sundman.replica_exchange_sgld(1e-4, ratios=(1.0, 2.0)), online=square),
    "cycles": lambda: star(sundman.cyclical_sgld(1e-4, cycle=5_000, explore=0.5), thin=100),
    "memory": lambda: rows(sundman.gradients.svrg(regression(), 6)),
    "streamed": streamed,
    "spread": lambda: star(SA, chains=4, online=square, draws=120),
    "spread otherwise": lambda: star(SA, chains=4, online=square, draws=120, weighting="equal"),
    "spread edited": lambda: star(SA, chains=4, online=edited, draws=120),
    "rows": shared_rows,
    "until": lambda: {**until(), "chains": 4},
    "tuned": lambda: star(None, target=bowl, init=jnp.ones(3), chains=4, draws=800, thin=200),
    "centred": lambda: star(
        None, target=many_rows(), init=jnp.zeros(3), chains=4, draws=800, thin=50
    ),
}
AGAIN = (
    "streamed",
    "spread",
    "spread otherwise",
    "spread edited",
    "rows",
    "until",
    "tuned",
    "centred",
)
"""Their call is made again; of several processes only the first knows whether there is a run."""


class Pause:
    """A watcher that sleeps after each block, so that a run takes long and costs nothing."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def log(self, values: dict[str, float], step: int) -> None:
        time.sleep(self.seconds)


def show(kinds: str) -> None:
    """Runs in memory, and a sum of the draws of each."""
    for kind in kinds.split("+"):
        draws = sundman.sample(**KINDS[kind](), key=jax.random.key(5), progress=False)
        leaves = jax.tree.leaves((draws.values, draws.weight, dict(draws.stats), draws.last))
        sums = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()
        print(f"{kind}: {len(draws)} draws of {draws.chains} chains, {sums}")


def main(kind: str, path: str) -> None:
    blocks._OPERATIONS = 2e6  # a block is a few draws, so that there is much to interrupt
    if kind == "paced":  # for two minutes, and written as often as by default
        if runs.exists(Path(path)):
            sundman.resume(path)
            return
        arguments = toy()
        key, watchers = jax.random.key(5), [Pause(2.0)]
        sundman.sample(**arguments, key=key, burn_in=400, store=path, watchers=watchers)
        return
    if path == "-":
        show(kind)
        return
    stored._FLUSH_SECONDS = 0.0
    again = kind in AGAIN
    if runs.exists(Path(path)) and not again:
        sundman.resume(path, checkpoint_every=7)
        return
    arguments = KINDS[kind]()
    target, sampler = arguments.pop("target"), arguments.pop("sampler")
    sundman.sample(
        target,
        sampler,
        key=jax.random.key(5),
        burn_in=400,
        store=path,
        checkpoint_every=7,
        resume=again,
        **arguments,
    )


if __name__ == "__main__":
    began = time.perf_counter()
    main(*sys.argv[1:])
    print(f"{time.perf_counter() - began:.2f} s")
