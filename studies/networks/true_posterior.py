"""The true posterior of small networks, by full-batch Hamiltonian Monte Carlo with a test.

    python -m studies.networks.true_posterior digits-gaussian --directory runs/reference
    python -m studies.networks.true_posterior digits-horseshoe --directory runs/reference
    python -m studies.networks.true_posterior concrete --directory runs/reference
    python -m studies.networks.true_posterior write --directory runs/reference

A chain moves in coordinates q in which the prior has unit size, w = s q, and the horseshoe's scale
of an array is sigma = e^eta with w = sigma q, so that q and eta are independent under the prior.
One draw is a trajectory of leapfrog steps,

    p ~ N(0, I);   p <- p - e/2 grad U,  q <- q + e p,  p <- p - e/2 grad U,   L times;
    accept with probability min(1, exp(H(q, p) - H(q', p')))

of random length L e in [pi/4, pi/2], of 600 steps at most; e is set in the burn-in so that four of
five are accepted, and is then divided by 1, 2, 4 or 8 at random, because U is steeper where scales
are large.
Under the horseshoe a second exact move follows. A network of rectified units gives the same
outputs if the scales of a layer are multiplied by c and that of the next kernel is divided by it:

    eta_l + log c,  eta_{l+1} - log c,   log c ~ N(0, 1),   accepted by the prior of the scales

Every chain is a file, so that a run that was broken off goes on; ``write`` makes of them the
predictive means that ``sa_sgld/posterior_accuracy.py`` compares with, and leaves what is
known of a problem whose chains are not in the directory. Chains that do not agree with each other,
R-hat above 1.1, are written down, but are no reference.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

import sundman
from studies.report import settings
from sundman import data, likelihoods, metrics, models, priors
from sundman._types import PyTree

RESULT = Path(__file__).parent / "results" / "true_posterior.json"
REFERENCE = Path(__file__).parents[1] / "sa_sgld" / "reference_digits.npz"
PRIORS = ("gaussian", "horseshoe")
TARGET_ACCEPTANCE = 0.8
LONGEST = 600  # leapfrog steps of a trajectory
AGREE = 1.1  # the largest R-hat of a reference

Potential = Callable[[Array], Array]


class HmcState(NamedTuple):
    """A position with its potential and gradient, and the step size.

    Attributes:
      q: the position.
      value: U(q).
      slope: grad U(q).
      log_step: the log of the leapfrog step, learnt in the burn-in.
      count: trajectories so far.
    """

    q: Array
    value: Array
    slope: Array
    log_step: Array
    count: Array


def hmc_begin(potential: Potential, q: Array, step: float) -> HmcState:
    """The state before the first trajectory."""
    value, slope = jax.value_and_grad(potential)(q)
    return HmcState(q, value, slope, jnp.log(jnp.float32(step)), jnp.float32(0.0))


def trajectory(
    potential: Potential, key: Array, state: HmcState, burn_in: Array
) -> tuple[HmcState, dict[str, Array]]:
    """One trajectory and its Metropolis test.

    Args:
      potential: U(q).
      key: of momentum, length and test.
      state: where it begins.
      burn_in: for how many trajectories the step is learnt.

    Returns:
      The state after it; and its acceptance probability, leapfrog steps and step.
    """
    key_p, key_length, key_test, key_step = jax.random.split(key, 4)
    step = jnp.exp(state.log_step) * 2.0 ** -jax.random.randint(key_step, (), 0, 4)
    length = jax.random.uniform(key_length, (), minval=math.pi / 4, maxval=math.pi / 2)
    count = jnp.clip(jnp.ceil(length / step), 1, LONGEST).astype(jnp.int32)
    p = jax.random.normal(key_p, state.q.shape)

    def leap(_: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, ...]:
        q, p, _, slope = carry
        p = p - 0.5 * step * slope
        q = q + step * p
        value, slope = jax.value_and_grad(potential)(q)
        return q, p - 0.5 * step * slope, value, slope

    begin = (state.q, p, state.value, state.slope)
    q, end, value, slope = lax.fori_loop(0, count, leap, begin)
    rise = value - state.value + 0.5 * (jnp.vdot(end, end) - jnp.vdot(p, p))
    accept = jnp.where(jnp.isfinite(rise), jnp.exp(jnp.minimum(0.0, -rise)), 0.0)
    taken = jax.random.uniform(key_test) < accept
    # Robbins-Monro: the step goes to where the acceptance is as wanted, and is then fixed
    learning = state.count < burn_in
    gain = 1.0 / jnp.sqrt(1.0 + state.count)
    log_step = state.log_step + jnp.where(learning, gain * (accept - TARGET_ACCEPTANCE), 0.0)
    after = HmcState(
        q=jnp.where(taken, q, state.q),
        value=jnp.where(taken, value, state.value),
        slope=jnp.where(taken, slope, state.slope),
        log_step=log_step,
        count=state.count + 1.0,
    )
    return after, {"acceptance": accept, "leaps": count, "step": step}


@dataclass(frozen=True)
class Problem:
    """A network and its posterior in coordinates of unit prior size.

    Attributes:
      name: of the problem.
      posterior: in the library's own coordinates.
      params: like those of the network.
      x, y: the test points.
      scale: the prior's standard deviation of every weight; of the horseshoe 1.
      horseshoe: whether q ends with the logs of the scales of the arrays.
    """

    name: str
    posterior: sundman.Posterior
    params: PyTree
    x: Array
    y: np.ndarray
    scale: Array
    horseshoe: bool

    @property
    def arrays(self) -> int:
        """How many arrays the network has."""
        return len(jax.tree.leaves(self.params))

    def start(self, key: Array) -> Array:
        """A first q: the network's usual start, scales at their base."""
        flat, _ = ravel_pytree(models.mlp_init(key, self.sizes))
        if self.horseshoe:
            return jnp.concatenate([flat / self._spread(self._base()), self._base()])
        q = flat / self.scale
        return q if not self._noise else jnp.append(q, 0.0)

    @property
    def sizes(self) -> list[int]:
        """Widths, input to output."""
        kernels = [leaf for leaf in jax.tree.leaves(self.params) if leaf.ndim == 2]
        return [kernels[0].shape[0], *(kernel.shape[1] for kernel in kernels)]

    @property
    def _noise(self) -> bool:
        return self.posterior.likelihood.hyper is not None

    def _base(self) -> Array:
        leaves = jax.tree.leaves(self.params)
        base = [1.41 / math.sqrt(leaf.shape[0]) if leaf.ndim == 2 else 1.0 for leaf in leaves]
        return jnp.log(jnp.asarray(base, jnp.float32))

    def _spread(self, eta: Array) -> Array:
        sizes = np.array([leaf.size for leaf in jax.tree.leaves(self.params)])
        return jnp.repeat(jnp.exp(eta), sizes, total_repeat_length=int(sizes.sum()))

    def weights(self, q: Array) -> PyTree:
        """The weights of the network at q."""
        flat, unravel = ravel_pytree(self.params)
        inner = q[: flat.size]
        return unravel(inner * (self._spread(q[flat.size :]) if self.horseshoe else self.scale))

    def position(self, q: Array) -> PyTree:
        """The position of the library's posterior at q."""
        position = self.posterior.position(self.weights(q))
        if self.horseshoe:
            eta = q[-self.arrays :] - self._base()  # sigma = softplus(p) base
            names = list(position.hyper)
            p = jnp.log(jnp.expm1(jnp.exp(jnp.minimum(eta, 3.0))))
            p = jnp.where(eta > 3.0, jnp.exp(eta), p)
            hyper = {name: {"p": p[i]} for i, name in enumerate(names)}
            return position._replace(hyper=hyper)
        if self._noise:
            mean, sd = self.posterior.likelihood.log_noise_prior  # type: ignore[attr-defined]
            name = next(iter(position.hyper))
            return position._replace(hyper={name: {"log_noise": mean + sd * q[-1]}})
        return position

    def potential(self, q: Array) -> Array:
        """-log likelihood - log prior of q, up to a constant."""
        if self.horseshoe:
            inner, eta = q[: -self.arrays], q[-self.arrays :]
            energy = 0.5 * jnp.vdot(inner, inner) - jnp.sum(priors.base.log_half_cauchy(eta))
            return energy - self.posterior.log_likelihood(self.weights(q))
        return 0.5 * jnp.vdot(q, q) - self.posterior.log_likelihood(self.position(q))

    def exchange(self, key: Array, q: Array) -> Array:
        """Scales moved from each layer to the next, which leaves every output as it is."""
        # leaves in the order bias, kernel of layer 0, of layer 1, ...
        for layer in range(self.arrays // 2 - 1):
            key, key_c, key_test = jax.random.split(key, 3)
            log_c = jax.random.normal(key_c)
            first = q.size - self.arrays + 2 * layer
            there = q.at[first].add(log_c).at[first + 1].add(log_c).at[first + 3].add(-log_c)
            gain = jnp.sum(priors.base.log_half_cauchy(there[-self.arrays :]))
            gain -= jnp.sum(priors.base.log_half_cauchy(q[-self.arrays :]))
            q = jnp.where(jnp.log(jax.random.uniform(key_test)) < gain, there, q)
        return q


def digits(prior: str) -> Problem:
    """The network of ``sundman bnn digits``, 64-50-50-10."""
    rules = {
        "kernel": priors.named(prior, scale=1.41, fan_in="leading"),
        "bias": priors.named(prior, scale=1.0, fan_in=None),
    }
    digits = data.digits()
    posterior = sundman.Posterior(
        models.mlp_apply,
        likelihood=likelihoods.categorical(),
        prior=rules,
        data=tuple(map(np.asarray, digits.train)),
    )
    params = models.mlp_init(jax.random.key(0), [64, 50, 50, 10])
    return _problem(f"digits-{prior}", posterior, params, digits.test, horseshoe=prior != PRIORS[0])


def regression(name: str) -> Problem:
    """A UCI table, split 0, one hidden layer of 50, the noise level learnt, Gaussian prior."""
    table = data.uci(name, 0)
    posterior = sundman.Posterior(
        regression_apply,
        likelihood=likelihoods.gaussian(),
        prior={"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)},
        data=tuple(map(np.asarray, table.train)),
    )
    params = models.mlp_init(jax.random.key(0), [table.train.x.shape[1], 50, 1])
    return _problem(name, posterior, params, table.test, horseshoe=False)


def regression_apply(params: PyTree, x: Array) -> Array:
    """One output a row."""
    return models.mlp_apply(params, x)[:, 0]


def _problem(
    name: str, posterior: sundman.Posterior, params: PyTree, test: data.Split, *, horseshoe: bool
) -> Problem:
    problem = Problem(
        name, posterior, params, jnp.asarray(test.x), np.asarray(test.y), jnp.ones(()), horseshoe
    )
    base = jax.device_get(problem._spread(problem._base()))
    return problem if horseshoe else replace(problem, scale=jnp.asarray(base))


def first_position(problem: Problem, key: Array, trajectories: int = 60) -> Array:
    """Where a chain begins.

    Under the horseshoe at a network that has learnt, with the scales at their base: from a random
    one the fastest way down in U is to shrink all scales, and outputs that are nothing but bias
    have no gradient that leads back.

    Args:
      problem: what to sample.
      key: of the start.
      trajectories: with the scales fixed.

    Returns:
      q.
    """
    q = problem.start(key)
    if not problem.horseshoe:
        return q
    inner, base = q[: -problem.arrays], q[-problem.arrays :]

    def fixed(inner: Array) -> Array:
        return problem.potential(jnp.concatenate([inner, base]))

    @jax.jit
    def learn(inner: Array) -> Array:
        def one(state: HmcState, key: Array) -> tuple[HmcState, None]:
            return trajectory(fixed, key, state, jnp.float32(trajectories))[0], None

        state = hmc_begin(fixed, inner, 0.005)
        return lax.scan(one, state, jax.random.split(key, trajectories))[0].q

    return jnp.concatenate([learn(inner), base])


def run_chain(
    problem: Problem, seed: int, burn_in: int, draws: int, thin: int
) -> dict[str, np.ndarray]:
    """One chain: what each draw predicts, and what tells whether the chain has arrived.

    Args:
      problem: what to sample.
      seed: of start, momenta and tests.
      burn_in: trajectories that are not kept.
      draws: that are kept.
      thin: trajectories from one to the next.

    Returns:
      Predictions (float16 would do, float32 is kept), U, the loss on the training points, the log
      of the product of the kernels' scales, acceptance, leapfrog steps and the step.
    """
    kernels = jnp.asarray([leaf.ndim == 2 for leaf in jax.tree.leaves(problem.params)])

    @jax.jit
    def advance(state: HmcState, key: Array) -> tuple[HmcState, dict[str, Array]]:
        def one(state: HmcState, key: Array) -> tuple[HmcState, dict[str, Array]]:
            state, info = trajectory(problem.potential, key, state, jnp.float32(burn_in))
            if problem.horseshoe:
                q = problem.exchange(jax.random.fold_in(key, 1), state.q)
                value, slope = jax.value_and_grad(problem.potential)(q)
                state = state._replace(q=q, value=value, slope=slope)
            return state, info

        state, info = lax.scan(one, state, jax.random.split(key, thin))
        position = problem.position(state.q)
        predicted = problem.posterior.predict(position, problem.x)
        info = {name: jnp.mean(value.astype(jnp.float32)) for name, value in info.items()}
        info["potential"] = problem.posterior.potential(position)
        info["train_nll"] = -problem.posterior.log_likelihood(position)
        if problem.horseshoe:
            info["logit_scale"] = jnp.sum(state.q[-problem.arrays :] * kernels)
            info["eta"] = state.q[-problem.arrays :]
        info["prediction"] = jnp.stack(jax.tree.leaves(predicted))  # of a normal: mean and sd
        return state, info

    key = jax.random.key(seed)
    state = hmc_begin(problem.potential, first_position(problem, jax.random.fold_in(key, 1)), 0.005)
    rows: list[dict[str, np.ndarray]] = []
    began = time.perf_counter()
    for number in range(burn_in // thin + draws):
        state, info = advance(state, jax.random.fold_in(key, 100 + number))
        if number >= burn_in // thin:
            rows.append(jax.device_get(info))
        if number % 20 == 0:
            told = ", ".join(f"{k} {float(v):.4g}" for k, v in info.items() if np.ndim(v) == 0)
            seconds = time.perf_counter() - began
            print(f"{problem.name} {seed} draw {number}, {seconds:.0f} s: {told}", flush=True)
    columns = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {**columns, "seconds": np.array(time.perf_counter() - began)}


SIZES = {  # chains, burn-in, draws, trajectories between draws
    "digits-gaussian": (8, 150, 300, 1),
    "digits-horseshoe": (4, 400, 400, 2),
    "concrete": (4, 200, 400, 2),
}


def problem_of(name: str) -> Problem:
    """By its name."""
    kind, _, prior = name.partition("-")
    return digits(prior) if kind == "digits" else regression(kind)


def chains_of(name: str, directory: Path) -> list[dict[str, np.ndarray]]:
    """The chains that are done."""
    paths = sorted(directory.glob(f"{name}-chain-*.npz"))
    return [dict(np.load(path)) for path in paths]


def rhat(values: np.ndarray) -> float:
    """Split R-hat of numbers (chain, draw)."""
    half = values.shape[1] // 2
    parts = np.concatenate([values[:, :half], values[:, -half:]]).astype(np.float64)
    within = parts.var(axis=1).mean()
    return float(np.sqrt((within + parts.mean(axis=1).var(ddof=1)) / within))


def main() -> None:
    """Run the chains that are missing, or write what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[*SIZES, "write"])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--chains", type=int, nargs="*", help="only these")
    parser.add_argument("--other", type=Path, help="another reference, to compare with")
    options = parser.parse_args()
    if options.name == "write":
        write(options.directory, options.other)
        return
    options.directory.mkdir(parents=True, exist_ok=True)
    chains, burn_in, draws, thin = SIZES[options.name]
    for seed in range(chains) if options.chains is None else options.chains:
        path = options.directory / f"{options.name}-chain-{seed}.npz"
        if path.is_file():
            continue
        columns = run_chain(problem_of(options.name), seed, burn_in, draws, thin)
        part = path.with_suffix(".part.npz")
        np.savez_compressed(part, **columns)
        part.rename(path)


def write(directory: Path, other: Path | None) -> None:
    """Predictive means for the package, and how well they are known.

    Args:
      directory: of the chains.
      other: a reference made otherwise, to be compared with; it has the same arrays.
    """
    with np.load(REFERENCE) as known:
        stored: dict[str, np.ndarray] = dict(known)
    result: dict[str, object] = json.loads(RESULT.read_text())
    for name in SIZES:
        chains = chains_of(name, directory)
        if len(chains) < 2:
            continue
        columns = {
            key: np.stack([chain[key] for chain in chains]).astype(np.float64)
            for key in ("potential", "train_nll", "acceptance", "leaps", "step", "logit_scale")
            if key in chains[0]
        }
        means = np.stack([chain["prediction"].astype(np.float64).mean(axis=0) for chain in chains])
        half = len(chains) // 2
        found: dict[str, object] = {
            "settings": settings(),
            "chains": len(chains),
            "burn_in": SIZES[name][1],
            "draws": len(chains[0]["prediction"]),
            "gradients_of_chain": float(np.sum([c["leaps"].sum() for c in chains]) / len(chains))
            * SIZES[name][3],
            "seconds_of_chain": float(np.mean([chain["seconds"] for chain in chains])),
            "acceptance": float(columns["acceptance"].mean()),
            "rhat": {k: rhat(columns[k]) for k in ("potential", "train_nll", "logit_scale")
                     if k in columns},
            **{
                key: {
                    "mean": float(columns[key].mean()),
                    "error": float(columns[key].mean(1).std(ddof=1) / math.sqrt(len(chains))),
                    "sd": float(columns[key].std()),
                }
                for key in ("potential", "train_nll", "logit_scale")
                if key in columns
            },
        }  # fmt: skip
        problem = problem_of(name)
        if name.startswith("digits-"):
            prior = name.removeprefix("digits-")
            mean, one, two = (part.mean(axis=0)[0] for part in (means, means[:half], means[half:]))
            parts = {"mean": mean, "half1": one, "half2": two}
            parts = {key: p / p.sum(axis=-1, keepdims=True) for key, p in parts.items()}
            found["floor"] = metrics.total_variation(parts["half1"], parts["half2"])
            found["nll"] = metrics.nll(parts["mean"], problem.y)
            if other is not None:
                with np.load(other) as theirs:
                    apart = metrics.total_variation(parts["mean"], theirs[f"{prior}_mean"])
                    found["tv_from_other"] = apart
                    found["floor_of_other"] = metrics.total_variation(
                        theirs[f"{prior}_half1"], theirs[f"{prior}_half2"]
                    )
            if all(value <= AGREE for value in found["rhat"].values()):  # type: ignore[attr-defined]
                stored |= {f"{prior}_{key}": p.astype(np.float32) for key, p in parts.items()}
                for key in ("train_nll", "potential"):
                    stored[f"{prior}_{key}"] = np.array([columns[key].mean(), columns[key].std()])
        else:
            found |= regression_scores(problem, chains)
        result[name] = found
        print(name, json.dumps(found, indent=1))
    np.savez_compressed(REFERENCE, **stored)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


def regression_scores(
    problem: Problem, chains: list[dict[str, np.ndarray]]
) -> dict[str, float | list[float]]:
    """Scores of the predictive, and how far the halves of the chains are apart.

    Args:
      problem: with the test points.
      chains: that are done.

    Returns:
      NLL and RMSE in units of the standardised target, and the distance of the halves' means.
    """
    predicted = np.concatenate([chain["prediction"] for chain in chains]).astype(np.float64)
    mean, sd = predicted[:, 0], predicted[:, 1]
    half = len(chains) // 2
    one, two = (
        np.concatenate([chain["prediction"][:, 0] for chain in part]).mean(axis=0)
        for part in (chains[:half], chains[half:])
    )
    noise = np.log(np.stack([chain["prediction"][:, 1, 0] for chain in chains]))
    return {
        "nll": metrics.normal_mixture_nll(mean, sd, None, problem.y),
        "rmse": metrics.rmse(mean.mean(axis=0), problem.y),
        "rms_of_halves": float(np.sqrt(np.mean((one - two) ** 2))),
        "log_noise": [float(noise.mean()), float(noise.std())],
        "rhat_log_noise": rhat(noise),
    }


if __name__ == "__main__":
    main()
