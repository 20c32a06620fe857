"""The verdict at the end of a run: it catches what is wrong, and is silent on good runs."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import _chunks, targets
from sundman.draws import Reason
from sundman.verdict import checks
from tests.verdict.runs import BAD, BAD_NETWORKS, GAUSSIAN, GOOD, GOOD_NETWORKS, LOGISTIC

pytestmark = pytest.mark.filterwarnings("error::sundman.TrustWarning")


def told(run, key):
    """The draws of a run, and what was said of trust."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draws = run(key)
    return draws, [each for each in caught if each.category is sundman.TrustWarning]


# One of each kind of run; the slow tests have other samplers and longer ones.
QUICK = {"sgld", "one chain", "another temperature", "baoab", "sa-sgld"}
QUICK |= {"equally spaced in time", "a pytree", "narrow and far from 0"}
assert GOOD.keys() >= QUICK


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in GOOD]
)
def test_silent_on_good_runs(name, key):
    draws = GOOD[name](key)
    assert draws.verdict.ok, draws.verdict
    assert draws.verdict.reasons == ()
    assert draws.verdict.note == ("of predictions, not of weights" if name == "a network" else "")


def slow_unless(quick, names):
    return [pytest.param(n, marks=[] if n in quick else [pytest.mark.slow]) for n in names]


@pytest.mark.parametrize("name", slow_unless((), GOOD_NETWORKS))
def test_silent_on_good_networks(name, key):
    draws = GOOD_NETWORKS[name](key)
    assert draws.verdict.ok, draws.verdict


@pytest.mark.long
@pytest.mark.parametrize("name", slow_unless({"a chain at chance level"}, BAD_NETWORKS))
def test_catches_what_is_wrong_with_a_network(name, key):
    check, run = BAD_NETWORKS[name]
    draws, _ = told(run, key)
    assert check in [reason.check for reason in draws.verdict.reasons], draws.verdict


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] if "funnel" in n else []) for n in BAD],
)
def test_catches(name, key):
    check, run = BAD[name]
    draws, said = told(run, key)
    assert check in [reason.check for reason in draws.verdict.reasons]
    assert not draws.verdict.ok
    (warning,) = said
    assert str(warning.message) == str(draws.verdict)
    assert all(str(reason) in str(draws.verdict) for reason in draws.verdict.reasons)
    assert warning.filename == __file__.replace("test_verdict.py", "runs.py")


@pytest.mark.parametrize("collect", [None, jnp.sum])
@pytest.mark.parametrize("plain", [False, True])
def test_a_run_that_is_only_short_has_no_wrong_sign(plain, collect, key):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)).astype(np.float32)
    y = (x @ np.array([1.0, -2.0]) + 0.1 * rng.normal(size=200)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x @ w, data=(x, y), likelihood=sundman.likelihoods.gaussian(0.1)
    )
    target = posterior.potential if plain else posterior
    with pytest.warns(sundman.TrustWarning, match="U falls all along and does not level off"):
        draws = sundman.sample(
            target, sundman.sgld(1e-7), init=jnp.zeros(2), key=key, chains=2, steps=50,
            collect=collect,
        )  # fmt: skip
    checks_that_failed = [reason.check for reason in draws.verdict.reasons]
    assert checks_that_failed.count(checks.STILL_FALLING) == 1
    assert checks.UNBOUNDED not in checks_that_failed


def test_a_short_run_is_not_judged(key):
    sampler = sundman.sgld(0.01)
    draws = sundman.sample(GAUSSIAN, sampler, key=key, chains=4, steps=400, thin=10)
    assert draws.verdict.status == "unknown"
    assert not draws.verdict.ok
    assert str(draws.verdict) == "Unknown: too short to judge: 40 draws per chain."
    assert "verdict='unknown: too short to judge" in repr(draws)


def test_a_sweep_is_judged_chain_by_chain(key):
    steps = jnp.array([0.01, 0.1])
    draws = sundman.sample(
        GAUSSIAN, jax.vmap(sundman.sgld)(steps), key=key, chains=2, steps=40_000, thin=2
    )
    assert draws.verdict.status == "unknown"
    assert sundman.judge(draws.chain(0)).ok
    assert sundman.judge(draws.chain(1)).reasons[0].check == "temperature"


def test_parts_are_judged_anew(key):
    draws, _ = told(BAD["short burn-in"][1], key)
    assert draws[3000:].verdict is None
    assert "U still falling" not in sundman.judge(draws[3000:]).short


@pytest.mark.long
def test_stiff_directions_are_seen_where_the_mean_is_right(key):
    target = targets.gaussian(200, condition=1e4)
    draws, (warning,) = told(
        lambda key: sundman.sample(
            target, sundman.sgld(1e-4), key=key, chains=8, init=target.exact(key, 8), steps=10_000
        ),
        key,
    )
    checks = [reason.check for reason in draws.verdict.reasons]
    assert "stiff temperature" in checks
    assert "temperature" not in checks
    assert "on average over all directions 1.0" in str(warning.message)


def test_a_clock_at_its_bound(key):
    sampler = sundman.sa_sgld(0.1, alpha=1.0, m=0.1, M=10.0, r=0.5, omega=1e-6, psi="scale_free")
    draws, _ = told(
        lambda key: sundman.sample(GAUSSIAN, sampler, key=key, chains=4, steps=10_000), key
    )
    reason = next(each for each in draws.verdict.reasons if each.check == "clock at a bound")
    assert "smallest step" in reason.text


_BLOCKWISE = sundman.sa_sgld(0.01, alpha=1.0, m=0.1, M=10.0, r=0.25, blockwise=True)
_BIASED = {
    "psgld": sundman.contrib.psgld(0.01),
    "adam_sgld": sundman.contrib.adam_sgld(0.01, eps=1.0),
    "blockwise": _BLOCKWISE,
}


def _two_arrays(position):
    return 0.5 * jnp.sum(position["a"] ** 2) + jnp.sum(position["b"] ** 2)


_POSITION = {"a": jnp.ones(3), "b": jnp.ones(2)}


@pytest.mark.parametrize("name", _BIASED)
def test_a_sampler_of_another_law_is_never_trusted(name, key, tmp_path):
    call = {"key": key, "init": _POSITION, "chains": 2, "steps": 10, "store": tmp_path / "run"}
    draws, _ = told(lambda key: sundman.sample(_two_arrays, _BIASED[name], **call), key)
    assert draws.verdict.short == "bad: biased by design"  # however short
    assert str(draws.verdict).startswith("This run should not be trusted. ")  # not "yet"
    stored = sundman.Draws.open(tmp_path / "run")
    assert stored.facts.biased
    assert stored.verdict == draws.verdict
    assert sundman.judge(stored) == draws.verdict
    assert sundman.diagnose(stored, show=False)["law of the sampler"].verdict == "bad"


def test_when_such_a_sampler_has_the_right_law(key):
    """At temperature 0 there is none to be wrong about; of one array all zetas are one."""
    for sampler in (sundman.contrib.psgld(0.01, 0.0), _BLOCKWISE):
        draws = sundman.sample(GAUSSIAN, sampler, key=key, chains=2, steps=10)
        assert not draws.facts.biased
    curvature = sundman.contrib.curvature.exact(GAUSSIAN.potential)
    assert sundman.contrib.psgld(0.01, curvature=curvature).biased
    assert not sundman.contrib.psgld(0.01, curvature=curvature, decay=0.0).biased
    assert not sundman.contrib.psgld(0.01, curvature=curvature, divergence="limit").biased


def test_a_sweep_of_a_biased_sampler(key):
    sampler = jax.vmap(sundman.contrib.psgld)(jnp.array([0.01, 0.1]))
    draws, _ = told(lambda key: sundman.sample(GAUSSIAN, sampler, key=key, chains=2, steps=10), key)
    assert draws.verdict.short == "bad: biased by design"


def test_few_effective_draws(key):
    draws, _ = told(
        lambda key: sundman.sample(GAUSSIAN, sundman.sgld(0.01), key=key, steps=500), key
    )
    assert "effective draws" in draws.verdict.short


def test_it_is_stored(tmp_path, key):
    run = tmp_path / "run"
    call = {"key": key, "chains": 4, "steps": 40_000, "thin": 10, "store": run}
    draws, (first,) = told(lambda key: sundman.sample(GAUSSIAN, sundman.sgld(0.1), **call), key)
    assert draws.verdict.reasons[0].check == "temperature"
    assert sundman.Draws.open(run).verdict == draws.verdict
    again, (second,) = told(lambda key: sundman.resume(run), key)
    assert again.verdict == draws.verdict
    assert str(first.message) == str(second.message)
    (run / "verdict.json").unlink()  # as if it had been killed before it was judged
    assert sundman.Draws.open(run).verdict is None
    again, _ = told(lambda key: sundman.resume(run), key)
    assert again.verdict.reasons[0].check == "temperature"
    assert sundman.Draws.open(run).verdict == again.verdict


def test_what_goes_wrong_in_judging_costs_no_draws(key, monkeypatch):
    def broken(draws, target):
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr("sundman.verdict.judge", broken)
    draws = sundman.sample(GAUSSIAN, sundman.sgld(0.01), key=key, steps=100)
    assert draws.verdict.status == "unknown"
    assert "ZeroDivisionError: by hand" in str(draws.verdict)
    draws, _ = told(BAD["lost chains"][1], key)
    assert draws.verdict.status == "bad"
    assert [reason.check for reason in draws.verdict.reasons] == ["lost chains"]


def test_a_verdict_in_words():
    verdict = sundman.Verdict("bad", (Reason("a", "It is a."), Reason("b", "It is b.")))
    assert str(verdict) == "This run should not be trusted yet. It is a. It is b."
    assert verdict.short == "bad: a, b"
    assert sundman.Verdict.from_json(verdict.as_json()) == verdict
    assert sundman.Verdict("good").short == "good"
    assert sundman.Verdict("good").ok


def test_all_chains_lost(key):
    draws, _ = told(
        lambda key: sundman.sample(
            lambda x: jnp.sum(x**4), sundman.sgld(1.0), key=key, init=jnp.ones(2), steps=100
        ),
        key,
    )
    assert not (draws.weight > 0).any()
    assert draws.verdict.short == "bad: lost chains"


def test_weights_of_a_network_do_not_decide(key):
    """200 parameters or more: U and the temperature are looked at, not the weights."""
    wide = sundman.Posterior(
        lambda w, x: jnp.stack([jnp.zeros(len(x)), jnp.tanh(x @ w[:4])], axis=1),
        data=LOGISTIC.data[:2],
        prior=sundman.priors.gaussian(1.0),
    )
    weights = np.zeros((1, 1000, 300), np.float32)
    weights[:, :, :4] = 1.0  # which predict
    weights[:, 500:, 4:] = 1.0  # they would fail any test
    stats = {"potential": np.random.default_rng(0).normal(size=(1, 1000))}
    draws = sundman.Draws(weights, np.ones((1, 1000)), stats, np.array([-1]), weights[:, -1])
    assert sundman.judge(draws, wide).ok
    assert sundman.judge(draws).short == "bad: R-hat, effective draws"


def _softmax_regression():
    """240 weights, 12 classes, labels that can be learnt; and draws of its posterior by BAOAB."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 20)).astype(np.float32)
    y = (x @ rng.normal(size=(20, 12))).argmax(axis=1)
    posterior = sundman.Posterior(
        lambda w, x: x @ w, data=(x, y), prior=sundman.priors.gaussian(1.0)
    )
    draws = sundman.sample(
        posterior, sundman.baoab(0.15, gamma=1.0), init=np.zeros((20, 12), np.float32),
        key=jax.random.key(2), chains=4, burn_in=200, steps=2000, thin=10,
    )  # fmt: skip
    return posterior, draws


def _with(draws, weights):
    return sundman.Draws(
        weights, draws.weight, draws.stats, np.full(4, -1), draws.last, draws.settings
    )


@pytest.mark.long
def test_what_a_network_predicts_is_looked_at():
    posterior, draws = _softmax_regression()
    weights = np.asarray(draws.position)
    assert not list(checks.predictions(draws, posterior))

    lost = weights.copy()
    lost[1] *= 0.001  # the same outputs everywhere
    (reason,) = checks.predictions(_with(draws, lost), posterior)
    assert reason.check == "chance level"
    assert "1 of 4 chains predicts the training data no better" in reason.text

    # settles only at the end of the run, in all chains alike: function-space R-hat of chains
    # against each other would not see it
    drifting = weights * np.linspace(0.4, 1.0, weights.shape[1])[:, None, None]
    (reason,) = checks.predictions(_with(draws, drifting.astype(np.float32)), posterior)
    assert reason.check == "R-hat of the loss"

    # every chain stays near where it began: each fits, and they differ in what they predict
    apart = weights[:, :1] + 0.2 * (weights - weights[:, :1])
    found = list(checks.predictions(_with(draws, apart), posterior))
    assert found
    assert found[0].check in ("R-hat of the loss", "R-hat of predictions")


def test_a_run_on_disk_is_judged_without_reading_it_whole(tmp_path, monkeypatch):
    """In parts as small as these, and by the same numbers."""
    run = {"key": jax.random.key(0), "chains": 2, "steps": 3_000, "progress": False}
    sampler = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5)
    target = sundman.targets.quartic()
    in_memory = sundman.sample(target, sampler, **run)
    sundman.sample(target, sampler, **run, store=tmp_path / "run")
    monkeypatch.setattr("sundman.verdict.summary._AT_A_TIME", 100)
    monkeypatch.setattr("sundman._chunks.IN_MEMORY", 100)
    stored = sundman.Draws.open(tmp_path / "run")
    verdict = sundman.judge(stored, target)
    assert str(verdict) == str(in_memory.verdict)
    assert "weight" not in vars(stored)
    assert stored.stats._read == {}
    lost = np.array([[1.0, 0.0, 2.0, 0.0], [0.0] * 4, [1.0] * 4])
    for size in (1, 6, 100):
        monkeypatch.setattr("sundman._chunks.IN_MEMORY", size)
        assert _chunks.ends_of_weight(lost).tolist() == [3, 0, 4]


@pytest.mark.parametrize(("number", "said"), [(100, True), (2000, False)])
def test_a_good_verdict_says_how_far_a_covariance_is_known(number, said):
    """Exact draws of a normal law in 20 dimensions: the widest direction is off by chance."""
    x = np.random.default_rng(0).normal(size=(4, number, 20))
    stats = {"potential": 0.5 * np.square(x).sum(axis=2)}
    draws = sundman.Draws(x, np.ones(x.shape[:2]), stats, np.full(4, -1), x[:, -1])
    judged = sundman.judge(draws).judged
    widest = np.linalg.eigvalsh(np.cov(x.reshape(-1, 20).T))[-1] - 1.0
    assert ("worst direction" in judged) == said
    if said:
        stated = float(judged.split("worst direction to ")[1].split("%")[0]) / 100
        assert 0.6 * widest < stated < 1.7 * widest
    else:
        assert widest < 0.3
