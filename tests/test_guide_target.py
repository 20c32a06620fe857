"""The guide to adding a target, followed to the letter: one module, one registration, one row."""

from __future__ import annotations

import importlib
import math
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from scipy.stats import norm

import sundman
from sundman import targets
from sundman.targets import base

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
GUIDE = PAGE.split("\n## A target\n")[1].split("\n## ")[0]
MODULE, REGISTRATION, ROW = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.S)
NAME = "sundman.targets.ring"


@pytest.fixture(scope="module")
def tests_of_targets() -> Iterator[types.ModuleType]:
    """``ring`` as a module of targets, registered, and the tests of targets with its row."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "targets"))
        patch.setattr(base, "REGISTRY", base.REGISTRY.copy())
        module = types.ModuleType(NAME)
        patch.setitem(sys.modules, NAME, module)
        exec(MODULE, module.__dict__)
        patch.setattr(targets, "ring", module.ring, raising=False)
        exec(REGISTRATION, {"register": targets.register, "ring": module.ring})
        rows = importlib.import_module("test_targets")
        patch.setattr(rows, "BUILDERS", dict(rows.BUILDERS))
        exec(ROW, rows.__dict__)
        yield rows


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize(
    "check",
    [
        "test_draws_have_the_true_moments",
        "test_window_holds_the_draws",
        "test_cell_masses_match_the_draws",
        "test_density_is_normalized",
    ],
)
def test_the_new_target_obeys_its_law(
    tests_of_targets: types.ModuleType, check: str, temperature: float
) -> None:
    getattr(tests_of_targets, check)("ring", temperature)


@pytest.mark.parametrize(
    "check", ["test_potential_is_a_single_precision_scalar", "test_gradient_against_differences"]
)
def test_the_new_potential_is_one(tests_of_targets: types.ModuleType, check: str) -> None:
    getattr(tests_of_targets, check)("ring")


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_truth_is_the_closed_form(
    tests_of_targets: types.ModuleType, temperature: float
) -> None:
    sigma = math.sqrt(2.0 * temperature / 10.0)
    r2 = 1.0 + sigma * norm.pdf(1.0 / sigma) / norm.cdf(1.0 / sigma)
    truth = targets.named("ring", temperature=temperature).truth
    assert truth["r2"] == pytest.approx(r2, rel=1e-10)
    assert truth["right"] == pytest.approx(0.5, rel=1e-10)


def test_the_new_target_is_a_value(tests_of_targets: types.ModuleType) -> None:
    one, other = targets.named("ring"), targets.named("ring")
    assert one == other
    assert one.observables == other.observables
    assert one.potential == targets.named("ring", temperature=2.0).potential
    slope = jax.jit(lambda potential, x: jax.grad(potential)(x))
    for stiffness in (1.0, 5.0):
        slope(targets.named("ring", stiffness=stiffness).potential, jnp.ones(2))
    assert slope._cache_size() == 1
    with pytest.raises(ValueError, match="stiffness=-1"):
        targets.named("ring", stiffness=-1.0)


@pytest.mark.long
def test_the_new_target_can_be_sampled(tests_of_targets: types.ModuleType) -> None:
    """With the steps that are suggested for it, to a few percent."""
    assert "ring" in targets.names()
    target = targets.named("ring")
    steps = targets.suggest(target)
    key = jax.random.key(0)
    for sampler in (sundman.sgld(steps.overdamped), sundman.baoab(steps.kinetic, gamma=2.0)):
        draws = sundman.sample(target, sampler, key=key, chains=64, burn_in=500, steps=5000)
        r2 = sundman.estimate.mean(draws, target.observables["r2"])
        assert float(r2.value) == pytest.approx(target.truth["r2"], rel=0.05)
