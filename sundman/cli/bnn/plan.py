"""What to run for a network: data, model, prior, sampler and lengths, settled and checked.

Steps of samplers are in learning-rate units: h or dtau is a learning rate on the mean loss U/N, and
omega is that of the mean loss, too (:mod:`sundman.units`); all other settings are as they are.

Without a sampler and settings of one the sampler is ``auto``, which tunes itself in a warm-up that
comes on top of the epochs. With minibatches it is the burn-in, too. There are several chains, so
that they can be compared; and a regression takes all rows at each step where that is cheap, because
exact gradients allow steps many times as long. Its bias is asked to be smaller than usual, since
the energy error is an average over all directions and the stiffest of a network have all of it, and
its warm-up to be longer. On a small table it goes on until its chains agree, since there a network
may fit the rows with much or little noise and wanders between the two, and steps take no time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

import sundman
from sundman import check, likelihoods, models, priors, units
from sundman.cli import options, samplers
from sundman.cli.bnn.data import DataSettings, LoadedData, load
from sundman.cli.errors import UserError, as_user_error, unknown
from sundman.cli.samplers import ALPHA_DTAU, SamplerSettings
from sundman.cli.settings import Request
from sundman.data import Dataset

_STEPS_OF_CLASSIFICATION, _STEPS_OF_REGRESSION = 20_000, 40_000  # by default
_DRAWS = 200
_LONGEST = 10  # times as long as by default may a run be that a rule ends
# The rule of a small regression, a margin above what the verdict asks; and how much work (rows x
# parameters x steps) a run with all rows at each step may be: minutes.
_AUTO_RULE, _AUTO_FULL_BATCH_WORK = "ess=200,rhat=1.05", 2.5e11
_FULL_BATCH_ROWS = 2_000  # a regression on as few rows takes them all at each step
_AUTO_CHAINS, _AUTO_CHAINS_OF_SMALL, _AUTO_STEPS = 2, 4, 10_000
# Rows times parameters up to which there are that many: of a classifier, of a regression, whose
# chains are longer and take all rows at each step. A regression as small has a rule, too.
_AUTO_SMALL, _AUTO_SMALL_REGRESSION = 1e8, 2e6
_AUTO_FULL_BATCH_ROWS = 20_000
_AUTO_FULL_BATCH_STEPS = 6_000  # at least
_AUTO_DEEP = 1e7  # rows times parameters up to which a regression has two hidden layers
# At the usual 0.02 the few stiffest of thousands of directions run hot, and after the usual 2,000
# steps a network has not learnt enough for its scale and step to be those of the run.
_AUTO_FULL_BATCH_SETTINGS = {"bias": 0.004, "warm_up": 6_000}
_AUTO_BATCHES = 16  # minibatches of a regression on more rows than that
# The noise rules the step of a classifier, and a step on few rows costs hardly less: a quarter of
# the digits comes nearer to the true predictive than 32 rows do in the same time, and less hot.
_AUTO_BATCHES_OF_CLASSES, _AUTO_BATCH_OF_CLASSES = 4, 500
_POSITION_BYTES = 200e6  # that positions of a run may take
_FEWEST_DRAWS = 50  # of a chain, to judge it by
_PUBLISHED = {"alpha": 1000.0, "m": 0.5, "M": 2.0, "r": 0.25, "omega": 1.0, "psi": "research_code"}
_MEAN_SQUARE = 1000.0  # |grad U|^2 of a regression, per training row: a rough guess


@dataclass(frozen=True)
class BnnSettings(DataSettings):
    """Every setting of ``sundman bnn``, by the key of its settings file.

    None stands for what is chosen by the data; a plan has all of them settled. ``settings`` is what
    was given for the sampler, or its settings by its name.
    """

    command: ClassVar[str] = "bnn"
    sampler: str | None = None
    prior: str | None = None
    width: int | None = None
    depth: int | None = None
    epochs: int | None = None
    burn_in_epochs: int | None = None
    batch: int | None = None
    thin: int | None = None
    until: str | None = None
    chains: int | None = None
    seeds: int = 1
    seed: int = 0
    temperature: float = 1.0
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Lengths:
    """How many chains, how long they are, how many rows a step takes, and what ends them before."""

    batch: int
    epochs: int
    burn_in_epochs: int
    thin: int
    steps_per_epoch: int
    chains: int
    until: str | None = None

    @property
    def burn_in_steps(self) -> int:
        """Steps that are not kept."""
        return self.steps_per_epoch * self.burn_in_epochs

    @property
    def steps(self) -> int:
        """Steps after them."""
        return self.steps_per_epoch * (self.epochs - self.burn_in_epochs)


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes:
      loaded: the data set, and what was decided about it.
      posterior: the posterior of the network's weights.
      name: the sampler's name.
      sampler: the sampler.
      prior: the prior's name.
      sizes: the widths of the layers, input to output.
      lengths: the lengths of a chain.
      settings: every setting, settled; those of the sampler in learning-rate units.
      until: a rule that may end the run before.
    """

    loaded: LoadedData
    posterior: sundman.Posterior
    name: str
    sampler: samplers.AnySampler
    prior: str
    sizes: list[int]
    lengths: Lengths
    settings: BnnSettings
    until: sundman.Until | None = None

    @property
    def data(self) -> Dataset:
        """The data set."""
        return self.loaded.data

    @property
    def decisions(self) -> list[str]:
        """What was decided about it, a sentence each."""
        return self.loaded.decisions

    @property
    def network(self) -> str:
        """The widths of the layers in words, 64-50-50-10."""
        return "-".join(str(size) for size in self.sizes)

    @property
    def tunes_itself(self) -> bool:
        """Whether the sampler finds its own settings."""
        return self.name == samplers.AUTO

    @property
    def keeps_positions(self) -> bool:
        """Whether positions are kept, and predictions made from them afterwards.

        Those of a sampler that tunes itself are, so that the temperature of the stiffest directions
        can be told, and those of a table, so that ``sundman predict`` has them, unless they are too
        large.
        """
        draws = self.lengths.chains * (self.lengths.steps // self.lengths.thin)
        wanted = self.tunes_itself or self.loaded.preprocessing is not None
        return wanted and 4 * draws * _parameters(self.sizes) <= _POSITION_BYTES


def make_plan(request: Request) -> Plan:
    """Settle every setting, and check them before anything is run."""
    asked = BnnSettings.asked_in(request)
    _check_numbers(asked)
    options.rule(asked.until)  # what makes no sense is refused before data are read
    name = None if asked.sampler is None else samplers.known_name(asked.sampler)
    prior = None if asked.prior is None else _known_prior(asked.prior)
    for_sampler = samplers.table("settings", asked.settings)
    if name is not None:
        # Settings that it does not have are refused before data are read.
        samplers.distribute([name], for_sampler, request.sampler_settings)
    loaded = load(asked)
    data = loaded.data
    classes, size = data.classes, len(data.train.y)
    temperature = float(asked.temperature)
    if name is None and not for_sampler and not request.sampler_settings and temperature > 0:
        name = samplers.AUTO
    name = name or ("samadams" if classes is None else "sa-sgld")
    prior = prior or "gaussian"
    own = samplers.distribute([name], for_sampler, request.sampler_settings)[name]
    tunes_itself = name == samplers.AUTO
    width = asked.width or (400 if size > 20_000 else 50)
    ends = data.train.x.shape[1], 1 if classes is None else classes
    sizes = [ends[0], width, width, ends[1]]
    deep = classes is not None or (tunes_itself and size * _parameters(sizes) <= _AUTO_DEEP)
    depth = asked.depth or (2 if deep else 1)
    sizes = [ends[0], *([width] * depth), ends[1]]
    lengths = _lengths(asked, classes, size, _parameters(sizes) if tunes_itself else None)
    if tunes_itself and lengths.batch >= size:
        own = {**_AUTO_FULL_BATCH_SETTINGS, **own}
    settings = _complete_settings(name, own, classes=classes, prior=prior, size=size)
    sampler = samplers.build(name, _with_learning_rate(name, settings), temperature)
    with as_user_error():
        posterior = sundman.Posterior(
            models.mlp_apply,
            likelihood=network_likelihood(classes),
            prior=_priors_of_layers(prior),
            data=tuple(data.train),
            temperature=temperature,
        )
    return Plan(
        loaded=loaded,
        posterior=posterior,
        name=name,
        sampler=sampler,
        prior=prior,
        sizes=sizes,
        lengths=lengths,
        settings=dataclasses.replace(
            asked,
            sampler=name,
            prior=prior,
            width=width,
            depth=depth,
            epochs=lengths.epochs,
            burn_in_epochs=lengths.burn_in_epochs,
            batch=lengths.batch,
            thin=lengths.thin,
            until=lengths.until,
            chains=lengths.chains,
            settings={name: settings},
        ),
        until=options.rule(lengths.until, lengths.chains, lengths.steps // lengths.thin),
    )


def _check_numbers(asked: BnnSettings) -> None:
    with as_user_error():
        for key in ("width", "depth", "epochs", "batch", "thin", "chains", "seeds"):
            if (value := getattr(asked, key)) is not None or key == "seeds":
                check.count(key, value, least=1)
        for key in ("seed", "split"):
            check.count(key, getattr(asked, key), least=0)
        if asked.burn_in_epochs is not None:
            check.count("burn_in_epochs", asked.burn_in_epochs, least=0)
        check.not_negative(temperature=asked.temperature)


def _known_prior(name: str) -> str:
    spelled = str(name).lower().replace("_", "-")
    if spelled not in priors.names():
        raise unknown("prior", str(name), priors.names())
    return spelled


def _priors_of_layers(prior: str) -> dict[str, priors.Prior]:
    """The prior of that name on kernels, scaled by their fan-in, and on biases."""
    kernel = priors.named(prior, scale=1.41, fan_in="leading")
    return {"kernel": kernel, "bias": priors.named(prior, scale=1.0, fan_in=None)}


def network_likelihood(classes: int | None) -> likelihoods.Likelihood:
    """Of that many classes, or of a regression, whose noise is learnt, too."""
    if classes is not None:
        return likelihoods.categorical()
    # Of standardised targets: from 5% of their spread to more than all. Fewer rows than parameters
    # can be fitted with no noise at all, and a prior that allows it makes intervals too narrow.
    return likelihoods.gaussian(log_noise_prior=(-1.0, 1.0))


def _parameters(sizes: Sequence[int]) -> int:
    """The number of weights and biases of a network."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))


def _lengths(
    asked: BnnSettings, classes: int | None, size: int, tuned_parameters: int | None
) -> Lengths:
    """Batch, epochs, burn-in, thinning and chains: those asked for, or what makes some 200 draws.

    And the rule that ends the run before: the one asked for, or that of a small regression.

    Args:
      asked: the settings.
      classes: of the data; None is a regression.
      size: training rows.
      tuned_parameters: of the network, if the sampler tunes itself.
    """
    tuned, work = tuned_parameters is not None, size * (tuned_parameters or 0)
    small = work <= (_AUTO_SMALL_REGRESSION if classes is None else _AUTO_SMALL)
    rows_at_once = _AUTO_FULL_BATCH_ROWS if tuned else _FULL_BATCH_ROWS
    full_batch = classes is None and size <= rows_at_once
    usual = min(32 if size <= 20_000 else 100, size)
    if tuned and classes is None:  # the noise of small batches would allow tiny steps only
        usual = max(usual, math.ceil(size / _AUTO_BATCHES))
    elif tuned:
        quarter = math.ceil(size / _AUTO_BATCHES_OF_CLASSES)
        usual = max(usual, min(quarter, _AUTO_BATCH_OF_CLASSES))
    usual = math.ceil(size / math.ceil(size / usual))  # no short last batch, which would be noisy
    batch = asked.batch or (size if full_batch else usual)
    if batch > size:
        raise UserError(f"batch={batch} is more than the {size} training rows; use a smaller one")
    per_epoch = math.ceil(size / batch)
    steps = _STEPS_OF_REGRESSION if classes is None else _STEPS_OF_CLASSIFICATION
    if tuned and batch < size:
        steps = _AUTO_STEPS
    elif work > _AUTO_SMALL_REGRESSION:
        steps = max(int(_AUTO_FULL_BATCH_WORK) // work, _AUTO_FULL_BATCH_STEPS)
    epochs = asked.epochs or math.ceil(steps / per_epoch)
    burn_in = asked.burn_in_epochs
    if burn_in is None:
        burn_in = epochs // 2
        if tuned:  # with minibatches the warm-up ends by a rule; with all rows it settles the step
            burn_in = epochs // 4 if batch == size else 0
    if burn_in >= epochs:
        raise UserError(
            f"burn_in_epochs={burn_in} leaves nothing of epochs={epochs}; use more epochs or a "
            "shorter burn-in"
        )
    steps_kept = per_epoch * (epochs - burn_in)
    chains = asked.chains or 1
    if tuned and asked.chains is None:
        chains = _AUTO_CHAINS_OF_SMALL if small else _AUTO_CHAINS
    draws, until, longest = _DRAWS, asked.until, _LONGEST
    unasked = (until, asked.thin, asked.epochs) == (None,) * 3
    if unasked and tuned and small and classes is None and batch == size:
        longest = min(_LONGEST, int(_AUTO_FULL_BATCH_WORK) // (work * steps_kept))
        until = _AUTO_RULE
    if until is not None and asked.epochs is None:  # the rule ends it, most likely
        epochs = burn_in + longest * (epochs - burn_in)
        steps_kept, draws = longest * steps_kept, longest * draws
    if tuned_parameters is not None:  # positions are kept, if as many as are needed fit
        fit = int(_POSITION_BYTES / (4 * chains * tuned_parameters))
        draws = fit if _FEWEST_DRAWS <= fit < draws else draws
    thin = asked.thin or max(1, math.ceil(steps_kept / draws) if tuned else steps_kept // draws)
    if thin > steps_kept:
        raise UserError(f"thin={thin} is more than the {steps_kept} steps kept; use a smaller one")
    return Lengths(batch, epochs, burn_in, thin, per_epoch, chains, until)


def _learning_rate(name: str, classes: int | None, prior: str, size: int) -> float:
    """A learning rate that suits the likelihood and the prior."""
    kinetic = samplers.recipe(name).kinetic
    if classes is None:  # dt as in our runs on the UCI tables
        return float(units.learning_rate(1e-3 if kinetic else 5e-7, size, kinetic=kinetic))
    if kinetic:
        return 2e-3
    if prior != "horseshoe":
        return 0.025
    return 0.2 if size > 20_000 else 0.1


def _complete_settings(
    name: str, own: SamplerSettings, *, classes: int | None, prior: str, size: int
) -> SamplerSettings:
    """The sampler's settings that were given, and for the rest those that suit the data."""
    if name == samplers.AUTO:
        return samplers.complete_auto(own)
    chosen, step = samplers.recipe(name), _learning_rate(name, classes, prior, size)
    friction = {"gamma": 5.0 if classes is None else 20.0} if chosen.kinetic else {}
    if not chosen.adaptive:
        return {"h": step, **friction, **own}
    if name == "sa-sgld" and classes is not None:
        return {"dtau": step, **_PUBLISHED, "lag": "none", **own}
    dtau = own.get("dtau", step)
    with as_user_error():
        check.positive(dtau=dtau)
    alpha = ALPHA_DTAU / units.time_step(dtau, size, kinetic=chosen.kinetic)
    if classes is not None:
        clock = {**_PUBLISHED, "dtau": dtau, "alpha": alpha, "lag": "guarded"}
    else:
        r, omega = 0.25 if chosen.kinetic else 0.5, _MEAN_SQUARE / size
        clock = samplers.scale_free_clock(dtau, alpha, r=r, omega=omega)
    return {**clock, **friction, **own}


def _with_learning_rate(name: str, settings: SamplerSettings) -> SamplerSettings:
    """The settings with the step as the learning rate it is."""
    if name == samplers.AUTO:
        return settings
    step = samplers.recipe(name).step_name
    with as_user_error():
        check.positive(**{step: settings[step]})
        return {**settings, step: sundman.LearningRate(settings[step])}
