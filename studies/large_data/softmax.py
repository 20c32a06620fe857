"""Softmax regression on MNIST pixels, 7,850 parameters: a run without a setting, and the truth.

    python -m studies.large_data.softmax reference   # all rows, the exact Hessian as preconditioner
    python -m studies.large_data.softmax run --seed 1
    python -m studies.large_data.softmax score

Needs the directory with the four files of MNIST in SUNDMAN_DATA_DIR. Distances are total variation:
half the L1 distance of the predictive probabilities, averaged over the test images.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import sundman
from sundman.tune.wide_centre import Surroundings

RESULTS = Path(__file__).with_name("results")
CHAINS, STEPS, BURN_IN, STEP, FRICTION = 8, 40, 6, 1.0, 1.0
CLASSES, PIXELS = 10, 784


def images(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Pixels from 0 to 1, and labels, of ``train`` or ``t10k``."""
    folder = Path(os.environ["SUNDMAN_DATA_DIR"])
    folder = folder / "mnist" if (folder / "mnist").is_dir() else folder
    x = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    y = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(x, np.uint8, offset=16).reshape(-1, PIXELS)
    return pixels.astype(np.float32) / 255, np.frombuffer(y, np.uint8, offset=8).astype(np.int32)


def posterior() -> sundman.Posterior:
    """The softmax regression, weights and biases with a standard normal prior."""
    return sundman.Posterior(
        lambda params, x: x @ params["w"] + params["b"],
        likelihood=sundman.likelihoods.categorical(),
        prior=sundman.priors.gaussian(1.0),
        data=images("train"),
    )


def probabilities(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Of the classes, averaged over draws (draw, 785, 10)."""
    mean = np.zeros((len(x), CLASSES))
    x = np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1)
    predict = jax.jit(lambda w: jax.nn.softmax(x @ w, axis=1))
    for one in weights:
        mean += np.asarray(predict(one), np.float64) / len(weights)
    return mean


def reference() -> None:
    """Chains on all rows by BAOAB, preconditioned with the Hessian at the mode; and its halves."""
    start = time.perf_counter()
    x, y = images("train")
    x = np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1)
    hot, features = np.eye(CLASSES, dtype=np.float32)[y], x.shape[1]

    @jax.jit
    def slopes(w):  # (chain, 785, 10)
        p = jax.nn.softmax(jnp.einsum("nf,cfk->cnk", x, w), axis=2)
        return jnp.einsum("nf,cnk->cfk", x, p - hot) + w

    w = _mode().reshape(features, CLASSES)
    p = np.asarray(jax.nn.softmax(x @ w.astype(np.float32), axis=1))
    hessian = np.zeros((features, CLASSES, features, CLASSES), np.float32)
    for a in range(CLASSES):
        for b in range(a + 1):
            weight = p[:, a] * ((a == b) - p[:, b])
            block = x.T @ (weight[:, None] * x)
            hessian[:, a, :, b] = block
            hessian[:, b, :, a] = block
    print(f"Hessian after {time.perf_counter() - start:.0f} s", flush=True)
    hessian = hessian.reshape(w.size, w.size)
    hessian[np.diag_indices(w.size)] += 1.0
    factor = scipy.linalg.cholesky(hessian, lower=True, overwrite_a=True)
    rng = np.random.default_rng(0)

    def out(z):  # L z with L L' = H^-1
        return scipy.linalg.solve_triangular(factor, z.T, lower=True, trans=1).T

    shape = (CHAINS, features, CLASSES)
    at = w.ravel() + out(rng.normal(size=(CHAINS, w.size)).astype(np.float32))
    momentum = rng.normal(size=at.shape).astype(np.float32)
    xt, _ = images("t10k")
    xt = np.concatenate([xt, np.ones((len(xt), 1), np.float32)], axis=1)
    predict = jax.jit(lambda w: jax.nn.softmax(jnp.einsum("nf,cfk->cnk", xt, w), axis=2))
    mean, square, kept, virials = np.zeros((CHAINS, len(xt), CLASSES)), 0.0, 0, []
    keep = np.exp(-FRICTION * STEP)
    slope = np.asarray(slopes(at.reshape(shape).astype(np.float32))).reshape(CHAINS, -1)
    for number in range(BURN_IN + STEPS):
        inward = scipy.linalg.solve_triangular(factor, slope.T, lower=True).T
        momentum = momentum - STEP / 2 * inward
        at = at + STEP / 2 * out(momentum)
        noise = rng.normal(size=at.shape).astype(np.float32)
        momentum = keep * momentum + np.sqrt(1 - keep**2) * noise
        at = at + STEP / 2 * out(momentum)
        slope = np.asarray(slopes(at.reshape(shape).astype(np.float32))).reshape(CHAINS, -1)
        inward = scipy.linalg.solve_triangular(factor, slope.T, lower=True).T
        momentum = momentum - STEP / 2 * inward
        if number >= BURN_IN:
            now = np.asarray(predict(at.reshape(shape).astype(np.float32)), np.float64)
            mean, square, kept = mean + now, square + now[:, :200] ** 2, kept + 1
            virials.append(np.sum((at - w.ravel()) * slope, axis=1) / w.size)
        if number % 5 == 0:
            print(f"step {number} after {time.perf_counter() - start:.0f} s", flush=True)
    mean /= kept
    half = [mean[: CHAINS // 2].mean(axis=0), mean[CHAINS // 2 :].mean(axis=0)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        RESULTS / "softmax-reference.npz",
        halves=np.stack(half).astype(np.float16),
        virial=np.mean(virials),
        steps=kept,
    )
    print(f"halves differ by a total variation of {distance(*half):.2g}, virial "
          f"{np.mean(virials):.4f}, {time.perf_counter() - start:.0f} s")  # fmt: skip


def _mode() -> np.ndarray:
    """Near the mode, biases last; the chains are preconditioned there, and begin around it."""
    model = posterior()
    example = {"b": jnp.zeros(CLASSES), "w": jnp.zeros((PIXELS, CLASSES))}
    around = Surroundings(model, example, jnp.array([1, 2], jnp.uint32))
    found = around.mode(np.zeros((PIXELS + 1) * CLASSES), 0.02)
    assert found is not None
    return np.roll(found[0], -CLASSES)  # a dict is ravelled in the order of its names


def distance(p: np.ndarray, q: np.ndarray) -> float:
    """Total variation, averaged over the test images."""
    return float(np.mean(0.5 * np.abs(p - q).sum(axis=1)))


def run(seed: int, steps: int) -> None:
    """``sample`` without a setting; its predictions of the test images."""
    start = time.perf_counter()
    init = {"w": np.zeros((PIXELS, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
    model = posterior()
    draws = sundman.sample(model, init=init, key=jax.random.key(seed), steps=steps)
    seconds = time.perf_counter() - start
    x, y = images("t10k")
    some = np.linspace(0, len(draws) - 1, min(len(draws), 500)).astype(int)
    parts = (np.asarray(draws.position[name])[:, some] for name in ("w", "b"))
    w, b = parts
    weights = np.concatenate([w, b[:, :, None, :]], axis=2).reshape(-1, PIXELS + 1, CLASSES)
    p = probabilities(weights, x)
    found = {
        "seed": seed,
        "steps": steps,
        "seconds": round(seconds, 1),
        "chains": draws.chains,
        "why": draws.tuning.why if draws.tuning else "",
        "verdict": draws.verdict.short,
        "nll": float(-np.mean(np.log(p[np.arange(len(y)), y]))),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    np.save(RESULTS / f"softmax-{seed}.npy", p.astype(np.float32))
    (RESULTS / f"softmax-{seed}.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def score() -> None:
    """Distances of the stored runs to the reference, beside what its halves differ by."""
    with np.load(RESULTS / "softmax-reference.npz") as stored:
        halves = stored["halves"].astype(np.float64)
    print(f"halves of the reference: {distance(*halves):.2g}")
    for path in sorted(RESULTS.glob("softmax-*.npy")):
        p = np.load(path).astype(np.float64)
        found = json.loads(path.with_suffix(".json").read_text())
        found["total_variation"] = distance(p, halves.mean(axis=0))
        found["floor"] = distance(*halves)
        path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        print(f"{path.stem}: {found['total_variation']:.3g}, {found['verdict']}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["reference", "run", "score"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    asked = parser.parse_args()
    {
        "reference": reference,
        "run": lambda: run(asked.seed, asked.steps),
        "score": score,
    }[asked.what]()
