"""The rules that decide a claim."""

import math

import numpy as np
import pytest

from studies.sa_sgld.statistics import (
    Measurement,
    all_of,
    equal,
    equivalent,
    less,
    limit,
    log_slope,
    over_seeds,
)


@pytest.mark.parametrize(
    ("difference", "outcome"),
    [
        (Measurement(0.01, 0.01), "reproduces"),
        (Measurement(0.03, 0.01), "partly"),
        (Measurement(0.05, 0.01), "does not reproduce"),
        (Measurement(0.0, math.inf), "not tested"),
        (Measurement(0.0, 0.2), "not tested"),
    ],
)
def test_equal(difference, outcome):
    assert equal(difference, margin=0.02, resolution=0.1) == outcome


@pytest.mark.parametrize(
    ("difference", "outcome"),
    [
        (Measurement(0.01, 0.004), "reproduces"),  # not 0, and of no use
        (Measurement(0.05, 0.01), "does not reproduce"),
        (Measurement(0.01, 0.01), "not tested"),
        (Measurement(0.0, math.inf), "not tested"),
    ],
)
def test_equivalent(difference, outcome):
    assert equivalent(difference, margin=0.02) == outcome


@pytest.mark.parametrize(
    ("difference", "outcome"),
    [
        (Measurement(-0.03, 0.01), "reproduces"),
        (Measurement(0.03, 0.01), "does not reproduce"),
        (Measurement(-0.01, 0.01), "does not reproduce"),  # -.006 to .. excludes the claimed -.05
        (Measurement(-0.01, 0.03), "not tested"),  # could still be the claimed -.05
        (Measurement(0.0, math.inf), "not tested"),
    ],
)
def test_less(difference, outcome):
    assert less(difference, claimed=-0.05) == outcome


def test_all_of():
    assert all_of(["reproduces", "not tested"]) == "reproduces"
    assert all_of(["reproduces", "does not reproduce"]) == "partly"
    assert all_of(["does not reproduce"]) == "does not reproduce"
    assert all_of([]) == "not tested"


def test_over_seeds_has_students_interval():
    mean = over_seeds([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean.value == 3.0
    assert mean.error == pytest.approx(math.sqrt(2.5 / 5))
    assert mean.quantile == pytest.approx(2.776, abs=1e-3)
    assert over_seeds([1.0]).error == math.inf


def test_differences_join_errors():
    difference = Measurement(1.0, 0.3, 2.776) - Measurement(0.5, 0.4, 2.0)
    assert difference.value == 0.5
    assert difference.error == pytest.approx(0.5)
    assert difference.half == pytest.approx(math.hypot(0.3 * 2.776, 0.8))


def test_text_has_the_places_of_the_error():
    assert Measurement(0.123456, 0.0012).text() == "0.1235"
    assert Measurement(-0.1534, 0.011).text(percent=True, sign=True) == "-15.3%"
    assert Measurement(math.nan, math.inf).text() == "no runs"
    assert Measurement(-math.inf, math.inf).text() == "not finite"


def test_log_slope_and_limit():
    steps = [0.04, 0.02, 0.01]
    biases = [Measurement(3.0 * h**1.5, 0.01 * h) for h in steps]
    slope = log_slope(steps, biases)
    assert slope.value == pytest.approx(1.5)
    parabola = [Measurement(0.2 + h - 4 * h**2, 0.001) for h in steps]
    assert limit(steps, parabola).value == pytest.approx(0.2)
    rng = np.random.default_rng(0)
    limits = [
        limit(steps, [Measurement(0.2 + h + 0.001 * rng.normal(), 0.001) for h in steps])
        for _ in range(300)
    ]
    spread = np.std([each.value for each in limits])
    assert spread == pytest.approx(limits[0].error, rel=0.2)
