"""Long NUTS runs of the logistic regression that tests/law/test_logistic.py is held to.

Breast cancer (Wisconsin, diagnostic), its ten mean features standardised, with an intercept; a
standard normal prior on all eleven coefficients. BlackJAX's NUTS in double precision, after
window adaptation.

    python -m studies.nuts.nuts_reference --output tests/law/logistic_reference.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import sklearn
from jax import Array
from sklearn.datasets import load_breast_cancer

FEATURES = 10
COMMAND = "python -m studies.nuts.nuts_reference --output tests/law/logistic_reference.json"


def data() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Standardised features, labels, and the features' names."""
    found = load_breast_cancer()
    x = found.data[:, :FEATURES]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return x, found.target, [str(name) for name in found.feature_names[:FEATURES]]


def run(key: Array, chains: int, warmup: int, draws: int) -> np.ndarray:
    """Positions (chain, draw, coefficient), the intercept last."""
    x, y, _ = data()
    design, y = jnp.asarray(np.column_stack([x, np.ones(len(x))])), jnp.asarray(y)

    def log_density(w: Array) -> Array:
        logits = design @ w
        return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * w @ w

    def chain(key: Array) -> Array:
        first_key, warm_key, run_key = jax.random.split(key, 3)
        first = jax.random.normal(first_key, (design.shape[1],))
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
        (state, parameters), _ = adaptation.run(warm_key, first, num_steps=warmup)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state: Any, key: Array) -> tuple[Any, Array]:
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(run_key, draws))[1]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(key, chains)))


def summary(positions: np.ndarray) -> dict[str, Any]:
    """Means and sds, with errors from means over a hundred batches of each chain."""
    chains, draws, size = positions.shape
    batches = positions[:, : draws // 100 * 100].reshape(chains * 100, -1, size)
    count = len(batches)
    mean = positions.mean(axis=(0, 1))
    second = np.square(positions - mean)
    sd = np.sqrt(second.mean(axis=(0, 1)))
    spread = np.square(batches - mean).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(count)
    mean_error = batches.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(count)
    between = positions.mean(axis=1).var(axis=0, ddof=1)
    within = positions.var(axis=1, ddof=1).mean(axis=0)
    return {
        "mean": mean.tolist(),
        "mean_error": mean_error.tolist(),
        "sd": sd.tolist(),
        "sd_error": (spread / (2 * sd)).tolist(),
        "largest_r_hat": float(np.sqrt(1 + between / within).max()),
        "smallest_ess": float((sd / mean_error).min() ** 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with jax.enable_x64(True):
        key = jax.random.key(options.seed)
        positions = run(key, options.chains, options.warmup, options.draws)
    found = {
        "command": COMMAND,
        "chains": options.chains,
        "warmup": options.warmup,
        "draws": options.draws,
        "seed": options.seed,
        "versions": {
            "blackjax": blackjax.__version__,
            "jax": jax.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "coefficients": [*data()[2], "intercept"],
        **summary(positions),
    }
    text = json.dumps(found, indent=2) + "\n"
    print(text, end="")
    if options.output:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
