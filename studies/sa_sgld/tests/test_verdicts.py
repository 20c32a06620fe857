"""Verdicts follow the numbers they are given."""

from dataclasses import replace

import numpy as np
import pytest

import sundman
from studies.sa_sgld import muller_brown, robustness, star, table1
from studies.sa_sgld.experiment import SCALES, NetworkBudget
from studies.sa_sgld.scoring import ChainRun, Scores
from studies.sa_sgld.statistics import Measurement
from studies.sa_sgld.table1 import ROWS
from studies.sa_sgld.toys import Average, ToyRun, paired_magnitude_differences
from sundman import targets


def star_run(r2: float, outer: float, tv: float, error: float = 0.01) -> ToyRun:
    exact = {"r2": 0.258, "x2y2": 3.7e-4, "outer": 0.0568}
    bias = {"r2": r2, "x2y2": r2, "outer": outer}
    averages = {n: Average(x * (1 + bias[n]), x, bias[n], error) for n, x in exact.items()}
    return ToyRun(4e-4, (1e-4, 1e-3), 0, averages, averages, tv)


def star_outcomes(sa: float, outer: float, limit: float) -> dict[str, str]:
    runs = {"SGLD": star_run(-0.2, outer, 0.05), "SA-SGLD": star_run(sa, outer, 0.03)}
    fits = {
        "limit r2 SA-SGLD": Measurement(limit, 0.01),
        "limit x2y2 SA-SGLD": Measurement(limit, 0.01),
        "limit r2 SA-SGLD unweighted": Measurement(0.2, 0.02),
    }
    verdicts = star.judge(runs, [runs["SA-SGLD"]], [runs["SGLD"]], fits, "test")
    return {verdict.claim: verdict.outcome for verdict in verdicts}


def test_muller_brown():
    """A gain beyond its error, no gain beyond 1%, and neither."""
    outcomes = []
    for value, error in ((-0.02, 0.005), (-0.001, 0.001), (0.0, 0.01)):
        gains = dict.fromkeys(muller_brown.JUDGED, Measurement(value, error))
        first, second = muller_brown.judge(star_run(0.1, 0.1, 0.1), gains, 1.0, "test")
        assert second.outcome == "reproduces"  # steps from 1e-4 to 1e-3
        outcomes.append(first.outcome)
    assert outcomes == ["reproduces", "does not reproduce", "not tested"]


def test_runs_on_the_same_noise_are_compared_chain_by_chain():
    """What both runs share drops out of the difference and of its error."""
    rng = np.random.default_rng(0)
    target = targets.quartic()
    chains, draws = 400, 50
    common = rng.normal(1.0, 0.5, (chains, 1, 1))
    own = rng.normal(0.0, 0.01, (2, chains, draws, 1))

    def run(x2, lost=()):
        values = np.sqrt(np.maximum(x2, 0.0)).astype(np.float32)
        diverged = np.full(chains, -1)
        diverged[list(lost)] = 3
        weight = np.where((diverged >= 0)[:, None], 0.0, np.ones((chains, draws)))
        return sundman.Draws(values, weight, {}, diverged, None)

    exact = float(target.truth["x2"])
    above = 4.0 * exact + common  # far above the truth
    one, other = run(above + 0.1 + own[0], lost=[7]), run(above + own[1], lost=[9])
    gain = paired_magnitude_differences(target, one, other, ["x2"])["x2"]
    assert abs(gain.value - 0.1 / exact) < 5 * gain.error
    assert gain.error == pytest.approx(0.01 * np.sqrt(2 / (398 * draws)) / exact, rel=0.15)
    back = paired_magnitude_differences(target, other, one, ["x2"])["x2"]
    assert back.value == pytest.approx(-gain.value)
    below = run(0.1 * exact + own[0])  # off by .9 of the truth, to the other side
    across = paired_magnitude_differences(target, below, run(3.0 * exact + own[1]), ["x2"])["x2"]
    assert across.value == pytest.approx(0.9 - 2.0, abs=0.02)


def test_star():
    outcomes = star_outcomes(sa=-0.15, outer=-0.4, limit=0.005)
    assert outcomes["Star: SGLD oversamples the outer ridges"] == "does not reproduce"
    assert list(outcomes.values()) == [
        "reproduces", "does not reproduce", "reproduces", "reproduces", "does not reproduce",
        "reproduces", "reproduces",
    ]  # fmt: skip
    other = star_outcomes(sa=0.01, outer=0.4, limit=0.2)
    assert other["Star: SGLD oversamples the outer ridges"] == "reproduces"
    unbiased = "Star: SA-SGLD's weighted averages are unbiased at the published step"
    assert other[unbiased] == "reproduces"
    assert "does not reproduce" in other.values()


def scored(nll: float) -> ChainRun:
    scores = Scores(nll=nll, accuracy=0.98, ece15=0.035, ece30=0.036, brier=0.03)
    return ChainRun(weighted=scores, unweighted=scores, mean_step=0.3)


def table_outcomes(gain: float, scale: str) -> dict[str, str]:
    rows = {
        row: {seed: scored(0.086 + 1e-4 * seed - gain * ("sa-" in row)) for seed in range(5)}
        for row in ROWS
    }
    verdicts = table1.judge(rows, SCALES[scale].table, scale)
    return {verdict.claim: verdict.outcome for verdict in verdicts}


@pytest.mark.parametrize(("gain", "outcome"), [(0.006, "reproduces"), (0.0, "does not reproduce")])
def test_table_comparison(gain, outcome):
    outcomes = table_outcomes(gain, "standard")
    better = "Under the horseshoe prior SA-SGLD is better than SGLD at the same mean step"
    assert outcomes[better] == outcome
    assert outcomes["Table, horseshoe/sgld: NLL / accuracy % / ECE %"] == "not tested"


def test_table_rows_are_compared_at_the_papers_scale_only():
    outcomes = table_outcomes(0.006, "paper")
    assert outcomes["Table, horseshoe/sgld: NLL / accuracy % / ECE %"] == "partly"
    assert outcomes["Table, gaussian/sgld: NLL / accuracy % / ECE %"] == "does not reproduce"


def test_missing_rows_are_not_tested():
    rows = {row: {} for row in ROWS}
    for verdict in table1.judge(rows, SCALES["paper"].table, "paper"):
        assert verdict.outcome == "not tested"


def chain(*, lost: bool) -> ChainRun:
    step = 1000 if lost else None
    return replace(scored(0.1), diverged_step=step, member=[-0.1] * 5, mean_step=0.5)


@pytest.mark.parametrize(
    ("width", "lost", "outcomes"),
    [
        (1200, True, ["reproduces", "reproduces", "reproduces", "reproduces"]),
        (1200, False, ["does not reproduce", "reproduces", "reproduces", "not tested"]),
        (400, False, ["not tested"] * 4),
    ],
)
def test_robustness(width, lost, outcomes):
    sgld = {0.2: chain(lost=False), 0.5: chain(lost=lost)}
    adaptive = {0.2: chain(lost=False), 0.5: chain(lost=False)}
    frozen = {"learned": chain(lost=False), "initial": chain(lost=False)} if lost else {}
    budget = NetworkBudget(width=width, epochs=10, burn_in=5, thin=100, seeds=1)
    sweep = robustness.Sweep(0, sgld, adaptive, frozen)
    verdicts = robustness.judge([sweep], budget, "test")
    assert [verdict.outcome for verdict in verdicts] == outcomes


def test_robustness_over_seeds():
    """One seed of two diverges at h = .5: the claim holds in part, and every chain has its row."""
    budget = NetworkBudget(width=1200, epochs=10, burn_in=5, thin=100, seeds=2)
    adaptive = {0.5: chain(lost=False)}
    sweeps = [
        robustness.Sweep(0, {0.5: chain(lost=True)}, adaptive, {"learned": chain(lost=False)}),
        robustness.Sweep(1, {0.5: chain(lost=False)}, adaptive, {"learned": chain(lost=False)}),
    ]
    diverges, survives, step, limit = robustness.judge(sweeps, budget, "test")
    assert (diverges.outcome, diverges.ours) == (
        "partly",
        "1 of 2 chains there diverged; of all steps: 0.5",
    )
    assert (survives.outcome, survives.error) == ("reproduces", "none, 2 seeds")
    assert (step.outcome, step.ours) == ("reproduces", "0.500, 0.500")
    assert limit.outcome == "partly"
    assert "1 of 2 diverge; frozen at learned: 0 of 2 diverge" in limit.ours
    names = [row[0] for row in robustness.table_of(sweeps).rows]
    assert len(names) == 6
    assert "SGLD h = 0.5, seed 1" in names
    assert "SGLD h = 0.5, scales frozen (learned), seed 0" in names


def test_a_chain_that_guesses_has_diverged():
    assert replace(chain(lost=False), member=[-0.1, -3.0, -4.0, -5.0]).diverged
    assert replace(chain(lost=False), member=[-0.1, None]).diverged
    assert replace(chain(lost=False), weighted=None).diverged
