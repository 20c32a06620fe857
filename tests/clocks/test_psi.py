import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sundman.clocks._psi import FORMS, power, psi, stretch_of

bounds = st.tuples(st.floats(1e-3, 0.99), st.floats(1.01, 1e3))
exponents = st.sampled_from([0.125, 0.25, 0.5, 1.0, 2.0, 0.3, 1.7])
zetas = st.floats(0.0, 1e30)


@given(bounds, exponents, zetas, st.sampled_from(FORMS))
def test_psi_stays_within_its_bounds(mM, r, zeta, form):
    m, M = mM
    value = float(psi(jnp.float32(zeta), m=m, M=M, r=r, form=form))
    assert m * (1 - 1e-6) <= value <= M * (1 + 1e-6)


@given(bounds, exponents, zetas, zetas, st.sampled_from(FORMS))
def test_psi_decreases(mM, r, one, other, form):
    m, M = mM
    low, high = sorted((one, other))
    at_low, at_high = (float(psi(jnp.float32(z), m=m, M=M, r=r, form=form)) for z in (low, high))
    assert at_high <= at_low * (1 + 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_psi_reaches_its_bounds(form):
    ends = psi(jnp.array([0.0, jnp.inf]), m=0.1, M=10.0, r=0.5, form=form)
    np.testing.assert_allclose(ends, [10.0, 0.1], rtol=1e-6)


@given(bounds, exponents, st.floats(1e-6, 1e6))
def test_the_form_of_the_research_code_is_the_published_one_at_another_scale(mM, r, zeta):
    m, M = mM
    scale = m ** (1 / r)
    if not scale > 1e-20:
        return
    research_code = psi(jnp.float32(zeta), m=m, M=M, r=r, form="research_code")
    published = psi(jnp.float32(zeta / scale), m=m, M=M, r=r, form="published")
    np.testing.assert_allclose(research_code, published, rtol=2e-4)


@given(bounds, st.floats(1e-6, 1e6), exponents)
def test_forms_equal_the_formulas_as_printed(mM, zeta, r):
    m, M = mM
    printed = {
        "published": m * (zeta**r + M / m) / (zeta**r + 1),
        "research_code": m * (zeta**r + M) / (zeta**r + m),
    }
    for form, expected in printed.items():
        np.testing.assert_allclose(psi(zeta, m=m, M=M, r=r, form=form), expected, rtol=1e-4)


@given(st.floats(1.01, 1e3), st.floats(1e-6, 1e6))
def test_scale_free_form_as_printed(M, zeta):
    printed = (M + zeta**0.5) / (1 + M * zeta**0.5)
    found = psi(zeta, m=1 / M, M=M, r=0.5, form="scale_free")
    np.testing.assert_allclose(found, printed, rtol=1e-4)
    assert stretch_of("scale_free", 1 / M, M) == pytest.approx(M)


def test_psi_is_exactly_m_where_m_equals_M():
    values = psi(jnp.array([0.0, 1e-3, 7.0, 1e20]), m=0.7, M=0.7, r=0.5)
    assert (values == jnp.float32(0.7)).all()


@pytest.mark.parametrize("exponent", [0.125, 0.25, 0.5, 1.0, 2.0, 0.3])
def test_power(exponent):
    x = jnp.array([0.0, 1e-6, 0.5, 3.0, 1e8])
    np.testing.assert_allclose(power(x, exponent), x**exponent, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"m": 2.0, "M": 1.0, "r": 0.5}, "m=2.0 > M=1.0"),
        ({"m": -1.0, "M": 1.0, "r": 0.5}, "m=-1.0"),
        ({"m": 0.1, "M": float("inf"), "r": 0.5}, "M=inf"),
        ({"m": 0.1, "M": 1.0, "r": 0.0}, "r=0.0"),
        ({"m": 0.1, "M": 1.0, "r": 0.5, "form": "papr"}, "psi='papr'"),
        ({"m": 0.1, "M": 1.0, "r": 0.5, "form": "scale_free"}, "M=1.0"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        psi(jnp.float32(1.0), **settings)
