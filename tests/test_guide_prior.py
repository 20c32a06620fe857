"""The guide to adding a prior, followed to the letter: one class, one registration, one row."""

from __future__ import annotations

import importlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import sundman
from sundman import priors
from sundman.priors import base

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "extending.md").read_text()
GUIDE = PAGE.split("\n## A prior\n")[1].split("\n## ")[0]
MODULE, REGISTRATION, DENSITY_ROW, GRADIENT_ROW = re.findall(
    r"```python\n(.*?)```", GUIDE, flags=re.S
)
NAME = "sundman.priors.hyperbolic"


@pytest.fixture(scope="module", autouse=True)
def rows() -> Iterator[tuple[types.ModuleType, types.ModuleType]]:
    """``hyperbolic`` as a prior, registered, and the tests of priors with its rows; then undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS / "priors"))
        patch.setattr(base, "REGISTRY", base.REGISTRY.copy())
        module = types.ModuleType(NAME)
        patch.setitem(sys.modules, NAME, module)
        exec(MODULE, module.__dict__)
        exports = {"register": priors.register, "Hyperbolic": module.Hyperbolic}
        exec(REGISTRATION, exports)
        patch.setattr(priors, "hyperbolic", exports["hyperbolic"], raising=False)
        densities, gradients = (
            importlib.import_module(name)
            for name in ("test_prior_densities", "test_prior_gradients")
        )
        patch.setattr(densities, "ELEMENTWISE", dict(densities.ELEMENTWISE))
        patch.setattr(gradients, "PRIORS", dict(gradients.PRIORS))
        exec(DENSITY_ROW, densities.__dict__)
        exec(GRADIENT_ROW, gradients.__dict__)
        yield densities, gradients
    assert "hyperbolic" not in priors.names()


def test_the_density_is_right(rows: tuple[types.ModuleType, types.ModuleType], x64: None) -> None:
    densities, _ = rows
    densities.test_elementwise_priors_are_scipys("hyperbolic")
    densities.test_fan_in_divides_the_variance("hyperbolic", (3, 4), "leading", 3)


def test_the_gradient_is_right(rows: tuple[types.ModuleType, types.ModuleType], x64: None) -> None:
    rows[1].test_gradients_by_finite_differences("hyperbolic", None)


def test_the_gradient_is_finite(rows: tuple[types.ModuleType, types.ModuleType]) -> None:
    rows[1].test_gradients_are_finite_odd_and_inward("hyperbolic")


def test_it_is_a_value_and_can_be_sampled() -> None:
    assert priors.named("hyperbolic", scale=0.5) == priors.hyperbolic(0.5) != priors.hyperbolic()
    assert repr(priors.hyperbolic(0.5)) == "priors.hyperbolic(0.5)"
    posterior = sundman.Posterior(
        lambda w, x: x @ w,
        data=(jnp.ones((4, 2)), jnp.zeros(4)),
        likelihood=sundman.likelihoods.gaussian(),
        prior=priors.hyperbolic(0.5),
    )
    draws = sundman.sample(
        posterior, sundman.sgld(1e-2), init=jnp.zeros(2), key=jax.random.key(0), steps=50
    )
    assert not draws.diverged.any()


def test_the_command_line_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    from sundman.cli import run
    from sundman.cli.bnn.plan import make_plan
    from sundman.cli.settings import Request

    assert run(["bnn", "--help"]) == 0
    assert "hyperbolic" in capsys.readouterr().out
    plan = make_plan(Request(in_options={"name": "digits", "prior": "hyperbolic"}))
    params = sundman.models.mlp_init(jax.random.key(0), [64, 5, 10])
    used = {prior for _, prior in priors.assign(plan.posterior.prior, params)}
    assert used == {priors.hyperbolic(1.41, fan_in="leading"), priors.hyperbolic(1.0)}


@pytest.mark.parametrize(
    ("name", "build", "message"),
    [
        ("Hyper_bolic", priors.laplace, "lower-case"),
        ("laplace", priors.gaussian, "already"),
        ("other", priors.laplace(), "constructor"),
    ],
)
def test_what_cannot_be_registered(name: str, build: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        priors.register(name, build)
