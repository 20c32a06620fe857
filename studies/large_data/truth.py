"""The true moments of the problems: draws of the normal law at the mode, reweighted on all rows.

Everything is in double precision and independent of the library. Positions come in pairs at both
sides of the mode, and only what the weights change is estimated:

    E[f] = E_normal[f] + sum_k (w_k - 1) f(theta_k) / sum_k w_k

so that with a million rows, where the weights hardly differ from 1, a few thousand draws give the
covariance far more exactly than as many draws of the posterior would. Pareto's k-hat says whether
the weights can be relied on: below 0.5.

    python -m studies.large_data.truth                    # what is missing
    python -m studies.large_data.truth --check NAME ...   # against a long run of NUTS
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from studies.large_data import problems
from studies.large_data.problems import Problem
from studies.large_data.scores import Truth

RESULTS = Path(__file__).with_name("results")
_ROWS, _POSITIONS = 16_384, 256  # of a piece
_ROWS_OF_HESSIAN = 4_096
_EVALUATIONS, _FEWEST, _MOST = 1e9, 2_048, 2**19  # of the likelihood of a row; of draws
_NUTS_CHAINS, _NUTS_WARM_UP, _NUTS_DRAWS = 4, 1_000, 10_000


def path_of(name: str) -> Path:
    """Where the truth of a problem is kept."""
    return RESULTS / "truth" / f"{name}.npz"


def read(name: str) -> Truth:
    """The truth of a problem, made by running this file."""
    with np.load(path_of(name)) as file:
        about = json.loads(str(file["about"]))
        return Truth(file["mean"], file["covariance"], **about)


class Density:
    """The log density of a problem at flat positions, over all rows, and its derivatives."""

    def __init__(self, problem: Problem) -> None:
        init = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), problem.init)
        self.start, self.unravel = ravel_pytree(init)
        self.problem = problem
        self._piece = jax.jit(jax.vmap(self._sum, (0, None)))
        self._slopes = jax.jit(
            lambda at, rows: (jax.grad(self._sum)(at, rows), self._bend(at, rows))
        )

    def _sum(self, at: Array, rows: Any) -> Array:
        return jnp.sum(self.problem.log_likelihood(self.unravel(at), *rows))

    def _bend(self, at: Array, rows: Any) -> Array:
        return jax.jacfwd(jax.grad(self._sum))(at, rows)

    def _prior(self, at: Array) -> Array:
        return self.problem.log_prior(self.unravel(at))

    def _pieces(self, size: int) -> Any:
        whole = (self.problem.x, self.problem.y, self.problem.count)
        for first in range(0, len(self.problem.y), size):
            rows = jax.tree.map(lambda leaf, first=first: leaf[first : first + size], whole)
            yield jax.tree.map(
                lambda leaf: jnp.asarray(leaf, None if leaf.dtype.kind == "i" else np.float64),
                rows,
            )

    def log_density(self, at: np.ndarray) -> np.ndarray:
        """At positions (k, d)."""
        found = np.asarray(jax.vmap(self._prior)(jnp.asarray(at))).copy()
        for rows in self._pieces(_ROWS):
            for first in range(0, len(at), _POSITIONS):
                part = slice(first, first + _POSITIONS)
                found[part] += np.asarray(self._piece(jnp.asarray(at[part]), rows))
        return found

    def slopes(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient and the Hessian at one position."""
        here = jnp.asarray(at)
        total = [np.array(jax.grad(self._prior)(here)), np.array(jax.hessian(self._prior)(here))]
        for rows in self._pieces(_ROWS_OF_HESSIAN):
            for sum_, part in zip(total, self._slopes(here, rows), strict=True):
                sum_ += np.asarray(part)
        return total[0], total[1]

    def mode(self) -> tuple[np.ndarray, np.ndarray]:
        """The mode, by damped Newton steps, and L with L L' = (-Hessian)^-1 there.

        A sampled scale is held at first: together with the effects that have it, it would go where
        both vanish.
        """
        at = np.asarray(self.start)
        if isinstance(self.problem.init, dict) and "log_tau" in self.problem.init:
            marks = {name: np.zeros(np.shape(leaf)) for name, leaf in self.problem.init.items()}
            held = ravel_pytree({**marks, "log_tau": np.ones(())})[0] > 0
            at, _ = self._ascended(at, ~np.asarray(held))
        at, hessian = self._ascended(at, np.ones(at.size, bool))
        size = np.sqrt(np.diag(-hessian))
        root = np.linalg.cholesky(np.linalg.inv(-hessian / np.outer(size, size)))
        return at, root / size[:, None]

    def _ascended(self, at: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where Newton's steps of the free coordinates lead, and the Hessian there."""
        value = self.log_density(at[None])[0]
        for _ in range(100):
            slope, hessian = self.slopes(at)
            step = np.zeros(at.size)
            step[free], gain = _ascent(slope[free], -hessian[np.ix_(free, free)])
            if gain < 1e-12 * at.size:
                return at, hessian
            for _ in range(30):
                there = self.log_density((at + step)[None])[0]
                if there > value + 1e-4 * gain or gain < 1e-6:
                    break
                step = 0.3 * step
            at, value = at + step, there
        raise RuntimeError(f"no mode was found: the last step would gain {gain:.2g}")


def _ascent(slope: np.ndarray, curvature: np.ndarray) -> tuple[np.ndarray, float]:
    """Newton's step with the absolute curvature, and what it would gain."""
    size = np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-12))
    values, vectors = np.linalg.eigh(curvature / np.outer(size, size))
    values = np.maximum(np.abs(values), 1e-12 * np.abs(values).max())
    step = vectors @ ((vectors.T @ (slope / size)) / values) / size
    return step, float(step @ slope)


def k_hat(log_weights: np.ndarray) -> float:
    """Pareto's k of the largest weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of a version of ArviZ to come
        import arviz

    with np.errstate(over="ignore"):
        return float(arviz.psislw(log_weights.copy())[1])


def _same(at: Any) -> Any:
    return at


def reweighted(problem: Problem, change: Callable[[Any], Any] = _same) -> Truth:
    """The moments of what ``change`` makes of the positions of a problem, by draws at its mode.

    In coordinates x of unit size in which ``change`` is the identity to first order, so that the
    moments of the normal draws z, which are known, tell most of the error of the moments of x.
    """
    density = Density(problem)
    mode, root = density.mode()
    wanted = int(np.clip(_EVALUATIONS / len(problem.y), _FEWEST, _MOST))
    z = np.random.default_rng(0).normal(size=(wanted // 2, problem.size))
    z = np.concatenate([z, -z])
    log_weights = density.log_density(mode + z @ root.T) + 0.5 * np.sum(z * z, axis=1)
    weights = np.exp(log_weights - log_weights.max())

    def flat(at: Array) -> Array:
        return ravel_pytree(change(density.unravel(at)))[0]

    centre, bent = np.asarray(flat(mode)), np.asarray(jax.jacfwd(flat)(mode)) @ root
    away = np.asarray(jax.jit(jax.vmap(flat))(mode + z @ root.T)) - centre
    x = np.linalg.solve(bent, away.T).T
    mean, covariance = _moments(x, z, weights)
    halves = [_moments(*(_half(each, number) for each in (x, z, weights))) for number in (0, 1)]
    own = np.linalg.cholesky(covariance)
    mean_error, error = ((one - two) / 2.0 for one, two in zip(*halves, strict=True))
    error = np.linalg.solve(own, np.linalg.solve(own, error).T)
    tail, used = k_hat(log_weights), weights.sum() ** 2 / np.sum(weights**2) / len(weights)
    how = (
        f"{len(z):,} draws of the normal law at the mode, reweighted: k-hat {tail:.2f}, "
        f"{used:.0%} effective"
    )
    return Truth(
        centre + bent @ mean,
        bent @ covariance @ bent.T,
        float(np.abs(np.linalg.solve(own, mean_error)).max()),
        float(np.abs(np.linalg.eigvalsh(error)).max()),
        how if tail < 0.5 else f"NOT RELIABLE: {how}",
    )


def _half(rows: np.ndarray, number: int) -> np.ndarray:
    """Every second pair."""
    return rows[np.arange(len(rows)) % (len(rows) // 2) % 2 == number]


def _moments(x: np.ndarray, z: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and covariance of x, close to the normal z."""
    w = weights / weights.sum()
    mean = w @ x
    second = np.eye(x.shape[1]) + (x * w[:, None]).T @ x - z.T @ z / len(z)
    return mean, second - np.outer(mean, mean)


# The hierarchy: tau^(-2/3) is closer to normal than log tau


def _log_tau(at: Any) -> Array:
    return -1.5 * jnp.log(1.0 - at["log_tau"] / 1.5)


def _with_root(problem: Problem) -> Problem:
    """The centred hierarchy with t, where tau^(-2/3) = 1 - t / 1.5, in the place of log tau."""

    def log_likelihood(at: Any, *rows: Any) -> Array:
        return problem.log_likelihood({**at, "log_tau": _log_tau(at)}, *rows)

    def log_prior(at: Any) -> Array:
        slope = _log_tau(at) / 1.5  # log d log tau / d t
        return problem.log_prior({**at, "log_tau": _log_tau(at)}) + slope

    return problem._replace(log_likelihood=log_likelihood, log_prior=log_prior)


def _from_root(at: Any, *, centred: bool) -> Any:
    log_tau = _log_tau(at)
    effect = at["effect"] if centred else at["effect"] * jnp.exp(-log_tau)
    return {**at, "log_tau": log_tau, "effect": effect}


def make(name: str) -> Truth:
    """The truth of the problem of this name."""
    if not name.startswith("hierarchical"):
        return reweighted(problems.make(name))
    problem = problems.make(name.replace("free", "centred"))
    return reweighted(_with_root(problem), partial(_from_root, centred="centred" in name))


def compare_with_library(problem: Problem) -> float:
    """How far our log density and the library's differ by more than a constant, relatively."""
    density = Density(problem)
    at = 0.01 * np.random.default_rng(1).normal(size=(4, problem.size))
    ours = density.log_density(at)
    posterior = problem.posterior()
    library = [-float(posterior.potential(density.unravel(jnp.asarray(each)))) for each in at]
    ours, theirs = ours - ours[0], np.array(library) - library[0]
    return float(np.abs(ours - theirs).max() / np.abs(ours).max())


def check(name: str) -> None:
    """Print how far a long run of NUTS, on all rows, is from what is kept."""
    from numpyro.infer import MCMC, NUTS

    truth, problem = read(name), problems.make(name)
    density = Density(problem)
    size = np.sqrt(np.diag(truth.covariance))
    root = np.linalg.cholesky(truth.covariance / np.outer(size, size)) * size[:, None]
    rows = next(density._pieces(len(problem.y)))

    def potential(z: Array) -> Array:
        at = truth.mean + root @ z
        return -density._sum(at, rows) - density._prior(at)

    run = MCMC(
        NUTS(potential_fn=potential, dense_mass=True),
        num_warmup=_NUTS_WARM_UP,
        num_samples=_NUTS_DRAWS,
        num_chains=_NUTS_CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    starts = np.random.default_rng(2).normal(size=(_NUTS_CHAINS, problem.size))
    run.run(jax.random.key(0), init_params=jnp.asarray(starts))
    z = np.asarray(run.get_samples())
    values = np.linalg.eigvalsh(np.cov(z.T))
    spread = 2.0 * math.sqrt(problem.size / len(z))
    print(
        f"{name}: {len(z):,} draws of NUTS: largest mean {np.abs(z.mean(axis=0)).max():.4f}, "
        f"sds off by {np.abs(z.std(axis=0) - 1).max():.4f}, eigenvalues {values[0]:.3f} to "
        f"{values[-1]:.3f} (exact draws: 1 ± {spread:.3f})",
        flush=True,
    )


def main() -> None:
    """Make what is missing, or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=problems.NAMES, metavar="NAME")
    parser.add_argument("--check", action="store_true", help="against NUTS")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in options.names:
        if options.check:
            check(name)
            continue
        if path_of(name).exists():
            continue
        began = time.perf_counter()
        truth = make(name)
        about = truth._asdict()
        mean, covariance = about.pop("mean"), about.pop("covariance")
        path_of(name).parent.mkdir(parents=True, exist_ok=True)
        np.savez(path_of(name), mean=mean, covariance=covariance, about=json.dumps(about))
        print(
            f"{name}: {truth.how}; means to {truth.mean_error:.1g} sd, eigenvalues to "
            f"{truth.eigenvalue_error:.1g}; {time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
