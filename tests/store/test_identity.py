"""A run goes on only as the run it is: whatever differs is named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import likelihoods, priors
from sundman.configuration import native_noise
from sundman.data import HostBatches
from sundman.store.files import StoreError
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
        ({"init": jnp.full(2, 2.0)}, "potential of the first position: .* 1, this one 4"),
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


def test_a_function_of_the_same_name_that_does_something_else(part):
    def other(x):
        return 3.0 * bowl(x)

    other.__qualname__ = "bowl"
    with pytest.raises(StoreError, match=r"potential of the first position: .* 1, this one 3"):
        run(part, resume=True, target=other)


def test_the_same_arguments_go_on(part):
    assert_same(run(part, resume=True), run())


def test_resume_begins_a_run_that_is_not_there(tmp_path):
    assert_same(run(tmp_path / "run", resume=True), run())
    assert_same(run(tmp_path / "run", resume=True), run())


def linear(w, x):
    return x @ w


def posterior(**changes):
    arguments = {"data": (X, Y), "likelihood": likelihoods.gaussian(1.0), **changes}
    return sundman.Posterior(linear, **arguments)


OTHERS = [
    ({"data": (X, Y + 1)}, "target.data: the stored run has crc32"),
    ({"data": (X[:10], Y[:10])}, "target.rows: the stored run has 20, this one 10"),
    ({"likelihood": likelihoods.gaussian(2.0)}, "potential of the first position"),
    ({"prior": priors.gaussian(3.0)}, "potential of the first position"),
    ({"temperature": 0.5}, "temperature: the stored run has 1.0, this one 0.5"),
]


def test_another_posterior_is_refused(tmp_path):
    path = tmp_path / "run"
    broken_off(path, target=posterior(), sampler=SGLD, piece=4)
    for change, said in OTHERS:
        with pytest.raises(StoreError, match=said):
            run(path, target=posterior(**change), sampler=SGLD, resume=True)


def batches():
    for i in range(0, 20, 5):
        yield X[i : i + 5], Y[i : i + 5]


class NotPicklable:
    """An iterable of batches that holds on to the process it lives in."""

    def __reduce__(self):
        raise TypeError("it holds an open file")

    def __iter__(self):
        return batches()


def test_a_call_that_cannot_be_saved_goes_on_with_its_arguments(tmp_path):
    def arguments():
        target = posterior(data=HostBatches(NotPicklable(), size=20))
        return {"target": target, "sampler": SGLD, "thin": 3, "draws": 12, "burn_in": 5}

    whole = run(**arguments())
    path = tmp_path / "run"
    broken_off(path, piece=3, **arguments())
    with pytest.raises(StoreError, match=r"cannot be saved \(it holds an open file\).*resume=True"):
        sundman.resume(path)
    assert_same(run(path, resume=True, **arguments()), whole)
    assert_same(sundman.resume(path), whole)


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
