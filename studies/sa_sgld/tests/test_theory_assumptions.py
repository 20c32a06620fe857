"""The condition for bounded moments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.sa_sgld.theory_assumptions import gamma, moment_condition

positive = st.floats(0.01, 100.0)


@given(a=positive, m=st.floats(0.01, 1.0), M=st.floats(1.0, 50.0), C1=positive, sigma=positive)
def test_it_says_for_which_steps_gamma_is_positive(a, m, M, C1, sigma):
    settings = {"a": a, "m": m, "M": M, "C1": C1, "sigma": sigma}
    condition = moment_condition(**settings)
    assert condition.possible == (a * m > sigma * M)
    if condition.possible:
        assert gamma(0.9 * condition.largest, **settings) > 0
        assert gamma(1.1 * condition.largest, **settings) < 0
    else:
        assert condition.largest == 0
        assert not condition.holds(1e-6)
        assert all(gamma(h, **settings) <= 0 for h in (1e-6, 1e-3, 1.0))


def test_the_published_bounds_need_a_hundred_times_the_noise():
    assert moment_condition(a=1.0, m=0.1, M=10.0, C1=1.0, sigma=0.02).needed == pytest.approx(2.0)
    assert not moment_condition(a=1.0, m=0.1, M=10.0, C1=1.0, sigma=0.02).possible
    assert moment_condition(a=1.0, m=0.1, M=10.0, C1=1.0, sigma=0.005).possible


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="m <= psi <= M"):
        moment_condition(a=1.0, m=2.0, M=1.0, C1=1.0, sigma=0.0)
    with pytest.raises(ValueError, match="a must be greater"):
        moment_condition(a=0.0, m=0.1, M=1.0, C1=1.0, sigma=0.0)
