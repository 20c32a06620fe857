"""A run goes on only as the run it is: whatever differs is named."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, likelihoods, priors
from sundman.clocks import monitors
from sundman.data import HostBatches
from sundman.gradients import Noisy
from sundman.native import native_noise
from sundman.run import fingerprint
from sundman.store.files import StoreError, read_json, write_json
from tests.store.runs import assert_same, bowl, broken_off, run

RNG = np.random.default_rng(5)
X = RNG.normal(size=(20, 2)).astype(np.float32)
Y = (X @ np.ones(2)).astype(np.float32)
SGLD = sundman.sgld(1e-3)


def deep_bowl(x):
    return 7.0 * bowl(x)


def first(x):
    return x[0]


IN_A_DICT = {"target": lambda p: bowl(p["a"]), "online": lambda p: p["a"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": jax.random.key(8)}, "key: the stored run has .* this one"),
        ({"draws": 31}, "draws: the stored run has 30, this one 31"),
        ({"burn_in": 11}, "burn_in: the stored run has 10, this one 11"),
        ({"thin": 2}, "thin: the stored run has 1, this one 2"),
        ({"chains": 3}, "chains: the stored run has 2, this one 3"),
        ({"weighting": "equal"}, "weighting: the stored run has leaving, this one equal"),
        ({"on_divergence": "raise"}, "on_divergence: the stored run has freeze, this one raise"),
        ({"stats": ("time",)}, "stats: "),
        ({"online": None}, "online: the stored run has True, this one False"),
        (
            {"collect": first},
            r"values.x: the stored run has float32\[2, 2\], this one float32\[2\]",
        ),
        ({"init": jnp.ones(3)}, r"position.x: the stored run has float32\[2, 2\], this one .*3\]"),
        ({"init": {"a": jnp.ones(2)}, **IN_A_DICT}, "position.a: the stored run has nothing"),
        ({"init": jnp.full(2, 2.0)}, "first position: the stored run has crc32"),
        ({"target": deep_bowl}, "target: the stored run has bowl, this one deep_bowl"),
        ({"sampler": sundman.sgld(0.05)}, "clock: "),
        ({"sampler": sundman.sa_sgld(0.05, alpha=2.0, m=0.1, M=10.0, r=0.5)}, "alpha: .*1.*2"),
    ],
)
def test_what_differs_is_named(part, change, said):
    with pytest.raises(StoreError, match=f"is another run: .*{said}"):
        run(part, resume=True, **change)


def test_other_kernels_are_named(part, monkeypatch):
    """They round differently."""
    other = not native_noise()
    monkeypatch.setattr("sundman.run.sampling.native_noise", lambda: other)
    monkeypatch.setattr("sundman.native.available", lambda: False)
    with pytest.raises(
        StoreError, match=f"native: the stored run has {not other}, this one {other}"
    ):
        run(part, resume=True)


def test_two_differences_are_both_named(part):
    with pytest.raises(StoreError, match=r"chains: .*; draws: "):
        run(part, resume=True, chains=3, draws=40)


def test_the_same_arguments_go_on(part):
    assert_same(run(part, resume=True), run())


def test_resume_begins_a_run_that_is_not_there(tmp_path):
    assert_same(run(tmp_path / "run", resume=True), run())
    assert_same(run(tmp_path / "run", resume=True), run())


def named(function, name="same"):
    """The function under a name that others have, too."""
    function.__name__ = function.__qualname__ = name
    return function


def two(scale):
    """A potential of two entries, of which the first is held the tighter."""
    return named(lambda p: jnp.sum(scale[0] * p["a"] ** 2 + scale[1] * p["b"] ** 2))


TWO = {"init": {"a": jnp.ones(2), "b": jnp.ones(2)}, "sampler": SGLD, "online": None}
SUNDMAN = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5}


def watching(function):
    clock = clocks.sundman(0.05, **SUNDMAN, monitor=monitors.function(named(function)))
    return sundman.compose(sundman.integrators.euler_maruyama(), clock)


def scheduled(function):
    return sundman.compose(sundman.integrators.euler_maruyama(), clocks.schedule(named(function)))


def steps_of(clock):
    return {"sampler": sundman.compose(sundman.integrators.euler_maruyama(), clock)}


# (as it was begun, as it is resumed, what is said)
EDITED = {
    "a potential": ({"target": two((1, 2))}, {"target": two((1, 3))}, "U near the first"),
    "a potential equal where it begins": (
        {"target": named(lambda p: bowl(p["a"]) + bowl(p["b"]))},
        {"target": named(lambda p: bowl(p["a"]) ** 2 + bowl(p["b"]))},
        "U near the first position|the gradient of U",
    ),
    "swapped entries": ({"target": two((1, 2))}, {"target": two((2, 1))}, "the gradient of U near"),
    "another constant in U": (
        {"target": two((1, 2))},
        {"target": named(lambda p: two((1, 2))(p) + 5.0)},
        "U near the first",
    ),
    "noise": (
        {"target": Noisy(two((1, 2)), 1.0)},
        {"target": Noisy(two((1, 2)), 1.1)},
        "target.*: the stored run has .*1.0.*, this one .*1.1",
    ),
    "no noise": (
        {"target": Noisy(two((1, 2)), 1.0)},
        {"target": two((1, 2))},
        "target: the stored run has",
    ),
    "schedule": (
        {"sampler": scheduled(lambda n: 1e-3)},
        {"sampler": scheduled(lambda n: 2e-3)},
        "dt near the first position",
    ),
    "a schedule that changes late": (
        {"sampler": scheduled(lambda n: jnp.where(n < 500, 1e-3, 1e-4))},
        {"sampler": scheduled(lambda n: jnp.where(n < 500, 1e-3, 1e-5))},
        "dt near the first position",
    ),
    "a schedule that changes between the powers of ten": (
        {"sampler": scheduled(lambda n: jnp.where(n < 2_000, 1e-3, 1e-4))},
        {"sampler": scheduled(lambda n: jnp.where(n < 50_000, 1e-3, 1e-4))},
        "dt of later steps near the first position: the stored run has 0.0001",
    ),
    "a schedule of another period": (
        {"sampler": scheduled(lambda n: 1e-3 * (2 + jnp.cos(n * 6.2831853 / 10_000)))},
        {"sampler": scheduled(lambda n: 1e-3 * (2 + jnp.cos(n * 6.2831853 / 20_000)))},
        "dt of later steps near the first position",
    ),
    "monitor": (
        {"sampler": watching(lambda g, p: jnp.sum(g["a"] ** 2))},
        {"sampler": watching(lambda g, p: 3 * jnp.sum(g["a"] ** 2))},
        "dt near the first position",
    ),
    "psi": (
        steps_of(clocks.sundman(0.05, **SUNDMAN, psi="research_code")),
        steps_of(clocks.sundman(0.05, **SUNDMAN, psi="published")),
        "psi: the stored run has research_code, this one published",
    ),
    "collect": (
        {"collect": named(lambda p: p["a"])},
        {"collect": named(lambda p: p["b"] ** 2)},
        "collect near the first position",
    ),
    "collect that is dropped": (
        {"collect": named(lambda p: p)},
        {},
        "collect: the stored run has True, this one False",
    ),
    "online": (
        {"online": named(lambda p: p["a"])},
        {"online": named(lambda p: 2 * p["a"])},
        "online near the first position",
    ),
}


# One of each kind of function; the others are found in the same way.
QUICK = {"a potential", "schedule", "collect"}
LONG = {
    "swapped entries",
    "no noise",
    "online",
    "a schedule that changes between the powers of ten",
}
MARKS = {name: () for name in QUICK} | {name: pytest.mark.long for name in LONG}
assert EDITED.keys() >= MARKS.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=MARKS.get(n, pytest.mark.slow)) for n in EDITED]
)
def test_an_edited_function_of_the_same_name_is_found(tmp_path, name):
    before, after, said = EDITED[name]
    common = {"target": two((1, 2)), **TWO}
    broken_off(tmp_path / "run", piece=3, **{**common, **before})
    with pytest.raises(StoreError, match=f"is another run: .*({said})"):
        run(tmp_path / "run", resume=True, **{**common, **after})
    assert_same(
        run(tmp_path / "run", resume=True, **{**common, **before}), run(**{**common, **before})
    )


def test_the_clock_is_asked_all_over_the_run():
    spec = SimpleNamespace(burn_in=500, draws=1_000, thin=20)
    steps = fingerprint.schedule_steps(spec)
    assert len(steps) == 64
    assert min(steps) == 0
    assert max(steps) == 2**31
    inside = [step for step in steps if step <= 20_500]
    assert len(inside) > 32
    assert max(np.diff(inside)) < 1_000


def test_a_run_begun_before_the_clock_was_asked_goes_on(part):
    about = read_json(part / "run.json", {})
    del about["schedule_steps"], about["probe"]["dt of later steps"]
    write_json(part / "run.json", {**about, "format": 4})
    assert_same(run(part, resume=True), run())


def linear(w, x):
    return x @ w


def posterior(**changes):
    arguments = {"data": (X, Y), "likelihood": likelihoods.gaussian(1.0), **changes}
    apply = arguments.pop("apply", linear)
    return sundman.Posterior(apply, **arguments)


OTHERS = [
    ({"data": (X, Y + 1)}, "target.data: the stored run has crc32"),
    ({"data": (X[:10], Y[:10])}, "target.rows: the stored run has 20, this one 10"),
    ({"data": (np.float16(X), Y)}, "target.data: the stored run has crc32"),
    ({"likelihood": likelihoods.gaussian(2.0)}, "target.likelihood.*: the stored run has 1.0"),
    ({"prior": priors.gaussian(3.0)}, "target.prior.* the stored run has .*1.*, this one .*3"),
    ({"prior": priors.laplace(1.0)}, "target.prior.*: the stored run has .*this one"),
    ({"temperature": 0.5}, "temperature: the stored run has 1.0, this one 0.5"),
    ({"apply": named(lambda w, x: 1.01 * (x @ w), "linear")}, "the gradient of U near"),
]


@pytest.mark.long
def test_another_posterior_is_refused(tmp_path):
    path = tmp_path / "run"
    broken_off(path, target=posterior(), sampler=SGLD, piece=4)
    for change, said in OTHERS:
        with pytest.raises(StoreError, match=said):
            run(path, target=posterior(**change), sampler=SGLD, resume=True)


@pytest.mark.long
def test_another_estimator_is_refused(tmp_path):
    path, center = tmp_path / "run", jnp.zeros(2)
    estimator = sundman.gradients.control_variate
    begun = estimator(posterior(), 5, at=center)
    broken_off(path, target=begun, sampler=SGLD, piece=4)
    for other in (
        estimator(posterior(), 4, at=center),
        estimator(posterior(), 5, at=center + 0.1),
        sundman.gradients.minibatch(posterior(), 5),
    ):
        with pytest.raises(StoreError, match=r"is another run: .*target"):
            run(path, target=other, sampler=SGLD, resume=True)


@pytest.mark.long
def test_other_host_batches_are_refused(tmp_path):
    def streamed(scale):
        return posterior(
            data=HostBatches([(scale * X[i : i + 5], Y[i : i + 5]) for i in (0, 5)], size=20)
        )

    path = tmp_path / "run"
    broken_off(path, target=streamed(1.0), sampler=SGLD, piece=4)
    with pytest.raises(StoreError, match=r"target.data.first batch: the stored run has crc32"):
        run(path, target=streamed(2.0), sampler=SGLD, resume=True)


def test_another_precision_is_refused(part):
    with (
        jax.default_matmul_precision("float32"),
        pytest.raises(StoreError, match="precision of matrix products: the stored run has None"),
    ):
        run(part, resume=True)


def test_other_versions_are_told_and_go_on(part, monkeypatch):
    real = fingerprint.versions()
    others = {"device": "abacus", "jax": "0.0.1"}
    monkeypatch.setattr(fingerprint, "versions", lambda: {**real, **others})
    said = r"begun with device .*, which is abacus here, jax .*, which is 0.0.1 here"
    with pytest.warns(sundman.store.StoreWarning, match=said):
        draws = run(part, resume=True)
    assert_same(draws, run())


def batches():
    for i in range(0, 20, 5):
        yield X[i : i + 5], Y[i : i + 5]


class OnlyHere:
    """An iterable of batches that holds on to the process it lives in."""

    def __iter__(self):
        return batches()


@pytest.mark.long
def test_a_call_that_cannot_be_kept_goes_on_with_its_arguments(tmp_path):
    def arguments():
        target = posterior(data=HostBatches(OnlyHere(), size=20))
        return {"target": target, "sampler": SGLD, "thin": 3, "draws": 12, "burn_in": 5}

    whole = run(**arguments())
    path = tmp_path / "run"
    broken_off(path, piece=3, **arguments())
    with pytest.raises(
        StoreError, match=r"target.data is a HostBatches.*target=\.\.\..*resume=True"
    ):
        sundman.resume(path)
    assert_same(run(path, resume=True, **arguments()), whole)
    assert_same(sundman.resume(path), whole)


@pytest.mark.slow
def test_batches_that_come_only_once(tmp_path):
    """A generator: the first batch is looked at, and still used."""

    def arguments():
        many = ((X[i % 16 : i % 16 + 4], Y[i % 16 : i % 16 + 4]) for i in range(40))
        target = posterior(data=HostBatches(many, size=20))
        return {"target": target, "sampler": SGLD}

    again = posterior(
        data=HostBatches(
            [(X[i % 16 : i % 16 + 4], Y[i % 16 : i % 16 + 4]) for i in range(40)], size=20
        )
    )
    whole = run(target=again, sampler=SGLD)
    assert_same(run(**arguments()), whole)
    broken_off(tmp_path / "run", **arguments())
    assert_same(run(tmp_path / "run", resume=True, **arguments()), whole)
