"""How large a step each scheme survives on the star, from exact draws.

Chains lost of 64 in 100,000 and in 500,000 steps:

    SGLD h              8e-4  9e-4  1.6e-3      SA-SGLD dtau = .32 (mean dt 7.8e-3)
                        0, 0  1, 1  35, 63      0, 0
    scale-free clock, dtau = 4e-3, a = .01      same step   lagged    guarded
                                                0, 0        64, 64    0, 0
    BAOAB dt = .015     .02                     ZBAOABZ dtau = .0385 (mean dt .0376)
              0, 1      24, 58                  0, 0
"""

from __future__ import annotations

import pytest
from battery import CHAINS, lost, mean_step, run

import sundman
from sundman.targets import star

STAR = star()
G_REF = STAR.truth["grad2"]
STEPS = [100_000, pytest.param(500_000, marks=pytest.mark.slow)]
either_length = pytest.mark.parametrize("steps", STEPS)


def scale_free(dtau: float, a: float, **settings) -> dict:
    return {"alpha": a / dtau, "M": 10.0, "omega": G_REF, "psi": "scale_free", **settings}


def run_star(sampler: sundman.Sampler, steps: int) -> sundman.Draws:
    return run(STAR, sampler, {}, steps=steps, seed=5, thin=50)


def lost_of(sampler: sundman.Sampler, steps: int) -> int:
    """Chains lost, of a sampler that loses some."""
    with pytest.warns(sundman.DivergenceWarning, match="of 64 chains diverged"):
        return lost(run_star(sampler, steps))


@pytest.mark.long
@either_length
def test_sgld_loses_its_first_chains_near_9e_4(steps: int) -> None:
    assert lost(run_star(sundman.sgld(7e-4), steps)) == 0
    assert 1 <= lost_of(sundman.sgld(1e-3), steps) <= CHAINS // 4
    assert lost_of(sundman.sgld(1.6e-3), steps) >= (CHAINS // 4 if steps < 500_000 else 60)


@pytest.mark.long
@either_length
def test_adaptive_sgld_loses_none_at_ten_times_that_step(steps: int) -> None:
    sampler = sundman.sa_sgld(0.32, m=0.001, M=1.0, alpha=0.5, r=0.5, psi="published")
    draws = run_star(sampler, steps)
    assert lost(draws) == 0
    assert mean_step(draws) == pytest.approx(7.8e-3, rel=0.05)


@pytest.mark.slow
@either_length
def test_guarded_lag_survives_where_plain_lag_does_not(steps: int) -> None:
    def sampler(lag: str) -> sundman.Sampler:
        return sundman.sa_sgld(4e-3, r=0.5, lag=lag, **scale_free(4e-3, 0.01))

    assert lost_of(sampler("full"), steps) == CHAINS
    guarded = run_star(sampler("guarded"), steps)
    assert lost(guarded) == 0
    assert mean_step(guarded) == pytest.approx(3.7e-3, rel=0.05)


@pytest.mark.long
@either_length
def test_adaptive_baoab_survives_twice_the_step(steps: int) -> None:
    assert lost_of(sundman.baoab(0.02), steps) >= (CHAINS // 8 if steps < 500_000 else 50)
    sampler = sundman.samadams(0.0385, r=0.25, **scale_free(0.0385, 0.01, m=0.1))
    draws = run_star(sampler, steps)
    assert lost(draws) == 0
    assert mean_step(draws) == pytest.approx(0.0376, rel=0.05)
