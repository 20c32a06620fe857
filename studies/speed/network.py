"""One step of a 784-w-w-10 network at batch 100: sundman, its peers and loops people write.

    python -m studies.speed.network [--rounds 9] [--cores 1]

Everything in one interleaved run, as multiples of plain SGD in a JAX scan. Made-up data of MNIST's
shape; single precision; each Langevin contestant takes the gradient of the likelihood on 100 rows
and of a prior, N(0, 1) unless it says horseshoe, and adds noise to 2.4 million parameters. Ours are
runs of ``sundman.sample``, so that minibatch order, statistics and guard are counted; what the run
calls its seconds is counted, so the checks before its first step (about 40 ms a run) are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

import sundman
from studies import report
from studies.timing import Case, Ratio, arguments, keep_to, measure
from sundman import models, priors

PyTree = Any
ROWS, BATCH, H = 6000, 100, 1e-3
SGD, SGLD, ADAPTIVE = "jax SGD", "SGLD", "SA-SGLD"
HORSESHOE = "SA-SGLD + horseshoe"
PUBLISHED = "torch published SA-SGLD + horseshoe, logging"
RATIOS = (
    Ratio(f"{SGLD}, native", SGD, "lower", 1.20),
    Ratio(f"{SGLD}, xla", SGD, "lower", 1.45),
    Ratio(f"{ADAPTIVE}, native", f"{SGLD}, native", "lower", 1.05),
    Ratio(f"{ADAPTIVE}, xla", f"{SGLD}, xla", "lower", 1.10),
    Ratio(f"{HORSESHOE}, native", SGD, "lower", 1.35),
    Ratio(f"{HORSESHOE}, xla", SGD, "lower"),
    Ratio("blackjax SGLD, scan", f"{SGLD}, native", "higher", 2.3),
    Ratio("blackjax SGLD, as in its docs", f"{SGLD}, native", "higher"),
    Ratio("sgmcmcjax SGLD, scan", f"{SGLD}, native", "higher", 1.9),
    Ratio("posteriors SGLD", f"{SGLD}, native", "higher", 2.0),
    Ratio("torch published SGLD", f"{SGLD}, native", "higher"),
    Ratio("torch published SA-SGLD", f"{ADAPTIVE}, native", "higher"),
    Ratio(PUBLISHED, f"{HORSESHOE}, native", "higher", 2.5),
)


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 784)).astype(np.float32)
    return x, generator.integers(0, 10, ROWS).astype(np.int32)


def log_likelihood(params: PyTree, x: Array, y: Array) -> Array:
    """log p(y | x, theta) of one row."""
    return jax.nn.log_softmax(models.mlp_apply(params, x))[y]


def log_prior(params: PyTree) -> Array:
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def plain_sgd(init: PyTree, x: np.ndarray, y: np.ndarray, steps: int) -> Case:
    """SGD on the mean loss in one scan: no prior, no noise, batches in order."""
    rows, labels = jnp.asarray(x), jnp.asarray(y)

    def loss(params: PyTree, begin: Array) -> Array:
        part = (lax.dynamic_slice_in_dim(whole, begin, BATCH) for whole in (rows, labels))
        return -jnp.mean(jax.vmap(log_likelihood, (None, 0, 0))(params, *part))

    def step(params: PyTree, n: Array) -> tuple[PyTree, None]:
        grads = jax.grad(loss)(params, (n * BATCH) % (ROWS - BATCH))
        return jax.tree.map(lambda p, g: p - H * g, params, grads), None

    many = jax.jit(lambda params: lax.scan(step, params, jnp.arange(steps))[0])
    return Case(lambda _: jax.block_until_ready(many(init)), steps)


def keep_nothing(position: PyTree) -> Array:
    """Keep nothing of a position."""
    del position
    return jnp.float32(0.0)


def ours(
    posterior: sundman.Posterior, sampler: sundman.Sampler, init: PyTree, steps: int, noise: str
) -> Case:
    def run(number: int) -> float:
        sundman.config(noise=noise)
        draws = sundman.sample(
            posterior,
            sampler,
            init=init,
            key=jax.random.key(number),
            steps=steps,
            thin=steps,
            batch_size=BATCH,
            collect=keep_nothing,
            progress=False,
        )
        return float(draws.settings["seconds"])

    return Case(run, steps)


def sundman_cases(init: PyTree, x: np.ndarray, y: np.ndarray, steps: int) -> dict[str, Case]:
    gauss = sundman.Posterior(models.mlp_apply, data=(x, y))
    rules = {"kernel": priors.horseshoe(1.41, fan_in="leading"), "bias": priors.horseshoe(1.0)}
    horseshoe = sundman.Posterior(models.mlp_apply, data=(x, y), prior=rules)
    sgld = sundman.sgld(gauss.time_step(H, kinetic=False))
    clock = {"alpha": 1e3, "m": 0.5, "M": 2.0, "r": 0.25, "omega": float(ROWS) ** 2}
    adaptive = sundman.sa_sgld(gauss.time_step(H, kinetic=False), **clock)
    found = {}
    for noise in ("native", "xla") if sundman.native.available() else ("xla",):
        found[f"{SGLD}, {noise}"] = ours(gauss, sgld, init, steps, noise)
        found[f"{ADAPTIVE}, {noise}"] = ours(gauss, adaptive, init, steps, noise)
        found[f"{HORSESHOE}, {noise}"] = ours(horseshoe, adaptive, init, steps, noise)
    return found


def jax_peers(init: PyTree, x: np.ndarray, y: np.ndarray, steps: int) -> Iterator[tuple[str, Case]]:
    from studies.speed.peers import blackjax_sgld, sgmcmcjax_sgld

    rows = (jnp.asarray(x), jnp.asarray(y))

    def case(run: Callable[[Array, PyTree, int], PyTree]) -> Case:
        return Case(lambda n: jax.block_until_ready(run(jax.random.key(n), init, steps)), steps)

    by_row = lambda params, row: log_likelihood(params, *row)  # noqa: E731
    scanned, looped = blackjax_sgld.network(log_prior, by_row, rows, BATCH, H / ROWS)
    yield "blackjax SGLD, scan", case(scanned)
    yield "blackjax SGLD, as in its docs", case(looped)
    try:
        other = sgmcmcjax_sgld.network(log_prior, log_likelihood, rows, BATCH, H / ROWS)
    except (ImportError, AttributeError, TypeError) as problem:
        print(f"sgmcmcjax is left out: {problem}")
    else:
        yield "sgmcmcjax SGLD, scan", case(other)


def torch_peers(x: np.ndarray, y: np.ndarray, width: int, steps: int) -> Iterator[tuple[str, Case]]:
    from studies.speed.peers import posteriors_sgld, torch_loops

    loops = {
        "torch SGD": torch_loops.sgd,
        "torch published SGLD": torch_loops.sgld,
        "torch published SA-SGLD": torch_loops.sa_sgld,
        PUBLISHED: torch_loops.sa_sgld_with_prior,
        "posteriors SGLD": posteriors_sgld.sgld,
    }
    for name, build in loops.items():
        loop = build(torch_loops.Problem(x, y, width, BATCH), H)
        yield name, Case(lambda _, loop=loop: loop(steps), steps)


def main() -> None:
    parser = arguments(__doc__, "network", rounds=9)
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    keep_to(options.cores)
    x, y = data()
    init = models.mlp_init(jax.random.key(0), [784, options.width, options.width, 10])
    cases = {SGD: plain_sgd(init, x, y, options.steps)}
    cases |= sundman_cases(init, x, y, options.steps)
    fewer = max(1, options.steps // 2)
    cases |= dict(jax_peers(init, x, y, fewer)) | dict(torch_peers(x, y, options.width, fewer))
    spent = measure(cases, options.rounds)
    title = f"784-{options.width}-{options.width}-10"
    sizes = {"width": options.width, "batch": BATCH, "rows": ROWS, "dtype": "float32"}
    report.publish(options, cases, spent, RATIOS, title, "ms", SGD, **sizes)


if __name__ == "__main__":
    main()
