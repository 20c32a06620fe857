"""Samplers at temperature 0 as optimizers: SA-SGD and SA-momentum against SGD, momentum and Adam.

A multilayer perceptron on digits or MNIST, the mean loss, no prior, minibatches without
replacement. Every optimizer is tried at eleven learning rates over five decades; the score of a
rate is the mean training loss over the last epoch. The adaptive clock's reference gradient is the
squared norm of the first minibatch's gradient: measured, not tuned.

    python -m studies.networks.zero_temperature digits mnist
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax
from jax import Array

import sundman
from studies.report import settings
from sundman.models import mlp_apply, mlp_init

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent
RATES = [float(rate) for rate in np.geomspace(1e-4, 10.0, 11)]
SIZES = {"digits": ((50, 50), 30, 50), "mnist": ((100, 100), 4, 100)}
MOMENTUM = 0.9
PyTree = Any


def keyed(sampler: sundman.Sampler) -> sundman.Sampler:
    """With a key, so that ``init(params)`` is that of an optimizer; there is no noise at T = 0."""
    return sampler.with_key(jax.random.key(0))


def adaptive(integrator: sundman.integrators.Integrator, rate: float, g_ref: float) -> Any:
    """``integrator`` at temperature 0 on the scale-free clock around the learning rate."""
    return keyed(sundman.compose(integrator, sundman.clocks.scale_free(rate, g_ref=g_ref)))


def with_momentum(rate: float) -> sundman.integrators.Integrator:
    """SGHMC whose momentum decays by 0.9 in a step dt: gamma = -log(0.9) / dt.

    In units where dt² is the learning rate of momentum descent, dt = sqrt(rate).
    """
    return sundman.integrators.sghmc(0.0, gamma=-np.log(MOMENTUM) / np.sqrt(rate))


OPTIMIZERS: dict[str, Callable[[float, float], Any]] = {
    "SGD": lambda rate, g_ref: keyed(sundman.sgld(rate, 0.0)),
    "SA-SGD": lambda rate, g_ref: adaptive(sundman.integrators.euler_maruyama(0.0), rate, g_ref),
    "momentum": lambda rate, g_ref: keyed(
        sundman.compose(with_momentum(rate), sundman.clocks.constant(np.sqrt(rate)))
    ),
    "SA-momentum": lambda rate, g_ref: adaptive(with_momentum(rate), np.sqrt(rate), g_ref),
    "Adam": lambda rate, g_ref: optax.adam(rate),
}


def loss(params: PyTree, x: Array, y: Array) -> Array:
    """Mean cross-entropy."""
    logits = mlp_apply(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@partial(jax.jit, static_argnums=0)
def train(optimizer: Any, params: PyTree, x: Array, y: Array, rows: Array) -> Array:
    """The loss at every step, for the rows (step, row in the batch) given."""

    def step(carry: tuple, batch: Array) -> tuple[tuple, Array]:
        params, state = carry
        value, grads = jax.value_and_grad(loss)(params, x[batch], y[batch])
        updates, state = optimizer.update(grads, state, params)
        return (optax.apply_updates(params, updates), state), value

    return jax.lax.scan(step, (params, optimizer.init(params)), rows)[1]


def orders(key: Array, size: int, batch: int, epochs: int) -> Array:
    """A shuffled epoch after the other, short last batches left out."""
    keys = jax.random.split(key, epochs)
    whole = jax.vmap(lambda k: jax.random.permutation(k, size)[: size // batch * batch])(keys)
    return whole.reshape(-1, batch)


def compare(name: str, seeds: int) -> dict[str, Any]:
    """Losses of every optimizer at every rate and seed: the last epoch's mean, and the curves."""
    hidden, epochs, batch = SIZES[name]
    data = getattr(sundman.data, name)()
    x, y = jnp.asarray(data.train.x), jnp.asarray(data.train.y)
    per_epoch = len(x) // batch
    found: dict[str, Any] = {}
    for optimizer in OPTIMIZERS:
        final, curves = [], []
        for rate in RATES:
            scores, per_seed = [], []
            for seed in range(seeds):
                first, second = jax.random.split(jax.random.key(seed))
                params = mlp_init(first, (x.shape[1], *hidden, 10))
                rows = orders(second, len(x), batch, epochs)
                grads = jax.grad(loss)(params, x[rows[0]], y[rows[0]])
                g_ref = float(optax.tree.norm(grads, squared=True))
                values = train(OPTIMIZERS[optimizer](rate, g_ref), params, x, y, rows)
                by_epoch = np.asarray(values).reshape(epochs, per_epoch).mean(axis=1)
                scores.append(float(by_epoch[-1]))
                per_seed.append(by_epoch.tolist())
            final.append(scores)
            curves.append(per_seed)
            print(f"{name} {optimizer} {rate:.2g}: {np.mean(scores):.4f}", flush=True)
        found[optimizer] = {"final": final, "curves": curves}
    return {
        "rates": RATES,
        "seeds": seeds,
        "epochs": epochs,
        "batch": batch,
        "hidden": hidden,
        "optimizers": found,
    }


def usable(result: dict[str, Any], optimizer: str) -> int:
    """How many of the rates end within a factor of two of the best loss of SGD, or below it."""
    finals = {name: np.mean(each["final"], axis=1) for name, each in result["optimizers"].items()}
    return int(np.sum(finals[optimizer] <= 2.0 * np.nanmin(finals["SGD"])))


def table(result: dict[str, Any]) -> str:
    """Mean loss of the last epoch ± its standard error over seeds, in Markdown."""
    names = list(result["optimizers"])
    lines = ["| learning rate | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for i, rate in enumerate(result["rates"]):
        cells = []
        for each in result["optimizers"].values():
            final = np.array(each["final"][i])
            error = final.std(ddof=1) / np.sqrt(len(final))
            shown = f"{final.mean():.4f} ± {error:.4f}"
            cells.append(shown if np.isfinite(final).all() else "not finite")
        lines.append(f"| {rate:.2g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(result: dict[str, Any], name: str) -> None:
    """Loss against learning rate, and the loss curves at each optimizer's best rate."""
    plt.style.use(Path(sundman.__file__).with_name("sundman.mplstyle"))
    robust, curves = plt.subplots(1, 2, figsize=(9, 3.6))[1]
    styles = ["-", "-", "--", "--", ":"]
    for (label, found), style, mark in zip(
        result["optimizers"].items(), styles, "osD^x", strict=True
    ):
        final = np.array(found["final"])
        shown = np.where(np.isfinite(final), final, 10.0).clip(1e-5, 10.0)
        low, middle, high = shown.min(axis=1), np.median(shown, axis=1), shown.max(axis=1)
        line = robust.loglog(result["rates"], middle, style, marker=mark, label=label)[0]
        robust.fill_between(result["rates"], low, high, color=line.get_color(), alpha=0.2)
        best = int(np.nanargmin(np.mean(final, axis=1)))
        epochs = np.arange(1, result["epochs"] + 1)
        curve = np.mean(found["curves"][best], axis=0)
        text = f"{label}, rate {result['rates'][best]:.2g}"
        curves.semilogy(
            epochs, curve, style, marker=mark, markevery=max(1, len(epochs) // 6), label=text
        )
    robust.set(xlabel="learning rate", ylabel="loss in the last epoch (10: not finite or larger)")
    curves.set(xlabel="epoch", ylabel="mean loss")
    robust.legend()
    curves.legend()
    robust.set_title(f"{name}: how far the rate may be off", loc="left")
    curves.set_title("at the best of the eleven rates", loc="left")
    plt.tight_layout()
    plt.savefig(PICTURES / f"zero-temperature-{name}.png", dpi=110)


def main() -> None:
    """Run, write the JSON and the figures, and print how many rates each optimizer can use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="+", choices=tuple(SIZES))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for name in options.data:
        result = {**settings(data=name), **compare(name, options.seeds)}
        path = RESULTS / f"zero_temperature_{name}.json"
        path.write_text(json.dumps(result) + "\n")
        figure(result, name)
        print(table(result))
        for optimizer in OPTIMIZERS:
            print(f"{name}: {optimizer} can use {usable(result, optimizer)} of {len(RATES)} rates")


if __name__ == "__main__":
    main()
