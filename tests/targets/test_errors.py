"""Bad input raises at the door, naming the argument and its value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sundman import targets
from sundman.targets import Target


@pytest.mark.parametrize("name", targets.names())
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature(name: str, temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        targets.named(name, temperature=temperature)


@pytest.mark.parametrize("name", targets.names())
def test_names_with_hyphens_or_underscores(name: str) -> None:
    assert targets.named(name).name == name
    assert targets.named(name.replace("-", "_")).name == name


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match=r"'muller-brown'.*got name='stars'"):
        targets.named("stars")


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: targets.gaussian(0), ValueError, "dim=0"),
        (lambda: targets.gaussian(2, 0.5), ValueError, "condition=0.5"),
        (lambda: targets.gaussian(1, 10.0), ValueError, "one coordinate"),
        (lambda: targets.gaussian(covariance=np.ones((2, 3))), ValueError, r"shape \(2, 3\)"),
        (lambda: targets.gaussian(covariance=[[1, 0.5], [0, 1]]), ValueError, "symmetric.*0.5"),
        (lambda: targets.gaussian(covariance=[[1, 2], [2, 1]]), ValueError, "eigenvalue -1"),
        (lambda: targets.gaussian(covariance=[[np.nan]]), ValueError, "finite"),
        (lambda: targets.gaussian(3, covariance=np.eye(2)), ValueError, "dim=3"),
        (lambda: targets.gaussian(condition=2.0, covariance=np.eye(2)), TypeError, "not both"),
        (lambda: targets.gaussian(mean=[1.0]), ValueError, r"mean=\[1.0\]"),
        (lambda: targets.funnel(1), ValueError, "dim=1"),
        (lambda: targets.funnel(s=-1.0), ValueError, "s=-1.0"),
        (lambda: targets.funnel(temperature=9.0), ValueError, "single precision"),
        (lambda: targets.banana(curvature=0.0), ValueError, "curvature=0.0"),
        (lambda: targets.double_well(barrier=-1.0), ValueError, "barrier=-1.0"),
        (lambda: targets.double_well(2.0, tilt=3.1), ValueError, "tilt=3.1 leaves one well"),
        (lambda: targets.quartic(quadratic=-1.0), ValueError, "quadratic=-1.0"),
    ],
)
def test_constructors(build: Callable[[], Target], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()


def test_grid_edges() -> None:
    star, well = targets.star(), targets.double_well()
    with pytest.raises(TypeError, match="give edges_y"):
        star.grid_mass([0.0, 1.0])
    with pytest.raises(TypeError, match="edges_x alone"):
        well.grid_mass([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"increasing.*edges_y"):
        star.grid_mass([0.0, 1.0], [1.0, 0.0])


def test_what_is_not_known() -> None:
    star = targets.star()
    bare = Target("bare", star.potential, 2, 1.0, star.start, {}, {})
    with pytest.raises(ValueError, match="normalizer"):
        bare.density(star.start)
    with pytest.raises(ValueError, match="cell masses"):
        bare.grid_mass([0.0, 1.0], [0.0, 1.0])
