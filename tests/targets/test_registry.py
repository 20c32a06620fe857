"""The registry of targets, and the steps suggested for them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from sundman import targets
from sundman.targets import Suggested, Target, base


@pytest.fixture
def open_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that forgets what a test adds."""
    monkeypatch.setattr(base, "REGISTRY", base.REGISTRY.copy())
    return


def bowl(*, temperature: float = 1.0) -> Target:
    return Target("bowl", lambda x: 50.0 * jnp.sum(x**2), 2, temperature, jnp.ones(2), {}, {})


def test_the_star_comes_first_and_names_have_hyphens() -> None:
    assert targets.names()[0] == "star"
    assert {"muller-brown", "double-well", "gaussian"} < set(targets.names())


@pytest.mark.parametrize("name", targets.names())
def test_a_registered_target_has_its_name_and_its_settings(name: str) -> None:
    assert targets.named(name, temperature=2.0).name == name
    assert targets.named(name.replace("-", "_").upper()) == targets.named(name)


def test_a_user_can_add_one(open_registry: None) -> None:
    targets.register("bowl", bowl)
    assert targets.names()[-1] == "bowl"
    assert targets.named("bowl", temperature=2.0).temperature == 2.0
    targets.register("bowl", bowl)  # once more is no mistake


@pytest.mark.parametrize(
    ("name", "build", "error", "words"),
    [
        ("star", bowl, ValueError, "already, got name='star'"),
        ("my_bowl", bowl, ValueError, "name='my_bowl'"),
        ("", bowl, ValueError, "name=''"),
        ("bowl", bowl(), TypeError, "build must be a constructor"),
        ("bowl", 3, TypeError, "build=3"),
    ],
)
def test_what_cannot_be_registered(
    open_registry: None, name: str, build: object, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        targets.register(name, build)  # type: ignore[arg-type]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'muller-brown'.*got name='stars'"):
        targets.named("stars")


BY_HAND = [name for name in targets.names() if targets.named(name).suggested is not None]


@pytest.mark.parametrize("name", BY_HAND)
def test_own_suggestions_are_kept(name: str) -> None:
    target = targets.named(name)
    suggested = targets.suggest(target)
    assert target.suggested is not None
    assert suggested[:2] == target.suggested[:2]
    own = target.suggested.squared_gradient
    assert suggested.squared_gradient == (own or target.truth["grad2"])


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in ("star", "gaussian") else pytest.mark.slow) for n in BY_HAND],
)
def test_steps_from_draws_are_like_those_by_hand(name: str) -> None:
    """Stable, and neither much longer nor much shorter than steps found by trial."""
    target = targets.named(name, temperature=2.0 if name == "muller-brown" else 1.0)
    by_hand = targets.suggest(target)
    truth = {key: value for key, value in target.truth.items() if key != "grad2"}
    bare = dataclasses.replace(target, suggested=None, truth=truth)
    steps = targets.suggest(bare)
    assert 1 / 8 < steps.overdamped / by_hand.overdamped < 4
    assert 1 / 4 < steps.kinetic / by_hand.kinetic < 2.5
    assert steps.squared_gradient == pytest.approx(by_hand.squared_gradient, rel=0.3) or (
        name == "funnel"  # E|grad U|^2 rests on draws too rare to be averaged
    )


def test_gaussian_suggestions_follow_its_stiffest_direction() -> None:
    target = targets.gaussian(3, 100.0, temperature=2.0)
    assert target.suggested == pytest.approx((1e-3, 0.015, None))
    steps = targets.suggest(dataclasses.replace(target, suggested=None))
    assert steps.overdamped == pytest.approx(1e-3, rel=1e-3)
    assert steps.kinetic == pytest.approx(0.015, rel=1e-3)
    assert steps.squared_gradient == target.truth["grad2"]


def test_without_draws_the_start_serves() -> None:
    steps = targets.suggest(bowl())
    assert steps == pytest.approx((1e-3, 0.015, 20_000.0), rel=1e-4)
    resting = dataclasses.replace(bowl(temperature=3.0), start=jnp.zeros(2))
    assert targets.suggest(resting).squared_gradient == pytest.approx(600.0, rel=1e-4)


def test_a_flat_potential_gives_no_scale() -> None:
    flat = Target("flat", jnp.sum, 2, 1.0, jnp.ones(2), {}, {})
    with pytest.raises(ValueError, match="'flat' gives no scale"):
        targets.suggest(flat)
    given = dataclasses.replace(flat, suggested=Suggested(0.1, 0.2))
    assert targets.suggest(given) == (0.1, 0.2, 2.0)


def test_published_settings_are_those_of_the_clock() -> None:
    published = {name: dict(targets.named(name).published) for name in targets.names()}
    assert {name for name, settings in published.items() if settings} == {
        "star",
        "muller-brown",
        "mixture",
        "funnel",
    }
    assert published["star"] == {
        "dtau": 1e-3,
        "alpha": 0.5,
        "m": 0.1,
        "M": 10.0,
        "r": 0.5,
        "omega": 100.0,
    }
    assert jax.tree.all(jax.tree.map(lambda number: isinstance(number, float), published))
