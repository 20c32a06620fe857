"""What to run for a network: data, model, prior, sampler and lengths, settled and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import sundman
from sundman import check, likelihoods, models, priors
from sundman.cli import bnn_data, bnn_defaults, samplers
from sundman.cli.errors import UserError, at_the_door, unknown
from sundman.data.base import Dataset

DEFAULTS: dict[str, Any] = {
    "name": None,
    "x": None,
    "y": None,
    "csv": None,
    "target": None,
    "task": None,
    "test_fraction": 0.2,
    "split": 0,
    "data": None,
    "download": False,
    "sampler": None,
    "prior": None,
    "width": None,
    "depth": None,
    "epochs": None,
    "burn_in_epochs": None,
    "batch": None,
    "thin": None,
    "seeds": 1,
    "seed": 0,
    "temperature": 1.0,
    "settings": {},
}
_STEPS = {True: 20_000, False: 40_000}  # by default; of classification and of regression
_DRAWS = 200
_WHOLE = 2_000  # a regression on as few rows takes them all at each step


def _rules(prior: str) -> dict[str, priors.Prior]:
    """The prior of that name on kernels, scaled by their fan-in, and on biases."""
    kernel = priors.named(prior, scale=1.41, fan_in="leading")
    return {"kernel": kernel, "bias": priors.named(prior, scale=1.0, fan_in=None)}


class Plan(NamedTuple):
    """What to run; ``settings`` are all of them, the sampler's in learning-rate units."""

    data: Dataset
    decisions: list[str]
    posterior: sundman.Posterior
    sampler: sundman.Sampler
    sizes: list[int]
    steps_per_epoch: int
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The sampler's name."""
        return self.settings["sampler"]


def plan(config: Mapping[str, Any], flags: Mapping[str, Any], sets: Mapping[str, Any]) -> Plan:
    """Settings from defaults, file and flags, in this order, checked before anything is run."""
    asked = {**DEFAULTS, **config, **flags}
    _check_numbers(asked)
    name = asked["sampler"]
    name = None if name is None else samplers.known(name, for_networks=True)
    prior = None if asked["prior"] is None else _known_prior(asked["prior"])
    given = asked["settings"]
    if not isinstance(given, Mapping):
        raise UserError(f"settings is a table, got {given!r}; write it as [settings]")
    if name is not None:
        samplers.distribute([name], given, sets)  # refused before data are read
    data, decisions = bnn_data.load(asked)
    classes = data.classes
    name = name or ("samadams" if classes is None else "sa-sgld")
    prior = prior or ("gaussian" if classes is None else "horseshoe")
    size = len(data.train.y)
    own = samplers.distribute([name], given, sets)[name]
    settings = bnn_defaults.complete(name, own, classes=classes, prior=prior, size=size)
    temperature = float(asked["temperature"])
    built = samplers.build(name, bnn_defaults.with_rates(name, settings), temperature)
    effective = {**asked, **_lengths(asked, classes, size), "sampler": name, "prior": prior}
    effective |= {"width": asked["width"] or (400 if size > 20_000 else 50)}
    effective |= {"depth": asked["depth"] or (1 if classes is None else 2)}
    with at_the_door():
        posterior = sundman.Posterior(
            models.mlp_apply,
            likelihood=_likelihood(classes),
            prior=_rules(prior),
            data=tuple(data.train),
            temperature=temperature,
        )
    hidden = [effective["width"]] * effective["depth"]
    sizes = [data.train.x.shape[1], *hidden, 1 if classes is None else classes]
    per_epoch = math.ceil(size / effective["batch"])
    effective["settings"] = {name: settings}
    return Plan(data, decisions, posterior, built, sizes, per_epoch, effective)


def _likelihood(classes: int | None) -> likelihoods.Likelihood:
    if classes is not None:
        return likelihoods.categorical()
    return likelihoods.gaussian(log_noise_prior=(-2.0, 2.0))


def _known_prior(name: str) -> str:
    spelled = str(name).lower().replace("_", "-")
    if spelled not in priors.names():
        raise unknown("prior", str(name), priors.names())
    return spelled


def _check_numbers(asked: Mapping[str, Any]) -> None:
    optional = ("width", "depth", "epochs", "batch", "thin")
    with at_the_door():
        for key in (*(key for key in optional if asked[key] is not None), "seeds"):
            check.count(key, asked[key], least=1)
        for key in ("seed", "split"):
            check.count(key, asked[key], least=0)
        if asked["burn_in_epochs"] is not None:
            check.count("burn_in_epochs", asked["burn_in_epochs"], least=0)
        check.not_negative(temperature=asked["temperature"])


def _lengths(asked: Mapping[str, Any], classes: int | None, size: int) -> dict[str, int]:
    """Batch, epochs, burn-in and thinning: those asked for, or what makes some 200 draws."""
    whole = classes is None and size <= _WHOLE
    batch = asked["batch"] or (size if whole else min(32 if size <= 20_000 else 100, size))
    if batch > size:
        raise UserError(f"batch={batch} is more than the {size} training rows; use a smaller one")
    per_epoch = math.ceil(size / batch)
    epochs = asked["epochs"] or math.ceil(_STEPS[classes is not None] / per_epoch)
    burn_in = asked["burn_in_epochs"]
    burn_in = epochs // 2 if burn_in is None else burn_in
    if burn_in >= epochs:
        raise UserError(
            f"burn_in_epochs={burn_in} leaves nothing of epochs={epochs}; use more epochs or a "
            "shorter burn-in"
        )
    kept = per_epoch * (epochs - burn_in)
    thin = asked["thin"] or max(1, kept // _DRAWS)
    if thin > kept:
        raise UserError(f"thin={thin} is more than the {kept} steps kept; use a smaller one")
    return {"batch": batch, "epochs": epochs, "burn_in_epochs": burn_in, "thin": thin}
