"""Chains that run away: held where they were good, flagged, weightless; the others unmoved."""

import ast
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.data import HostBatches
from sundman.run import guard
from sundman.run.schedule import Sizes
from sundman.run.step import Record
from sundman.store.directory import Run
from tests.store.runs import Crash, Do, assert_same, crash

KEY = jax.random.key(3)
SGLD = sundman.sgld(0.05)
STARTS = jnp.array([[0.1, 0.2], [0.3, -0.1], [-0.2, 0.1]])
BAD = 1  # the chain that is lost


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(25, 25))
    monkeypatch.setattr("sundman.run.disk_sink._FLUSH_SECONDS", 0.0)


def bowl(x):
    return 0.5 * jnp.sum(x[:2] ** 2)


def begun(x):
    """Positions are (x, y, time, step of the trouble or 0): the bowl drives time by dt a step."""
    return (x[3] > 0) & (x[2] > 0.05 * x[3] - 0.02)


def infinite_potential(x):
    return bowl(x) - x[2] + jnp.where(begun(x), jnp.inf, 0.0)


@jax.custom_jvp
def _spoil(x):
    return 0.0 * x[0]


@_spoil.defjvp
def _spoil_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return 0.0 * x[0], jnp.where(begun(x), jnp.nan, 0.0) * dx[0]


def spoiled_gradient(x):
    return bowl(x) - x[2] + _spoil(x)


def runaway(x):
    return bowl(x) - x[2] + jnp.where(begun(x), 1e9, 0.0)


TROUBLES = {"potential": infinite_potential, "gradient": spoiled_gradient, "rise": runaway}
STILL, WARM = sundman.sgld(0.05, temperature=0.0), SGLD


def starts(step):
    """The bad chain gets into trouble at ``step``; without noise, time moves by exactly dt."""
    return jnp.column_stack([STARTS, jnp.zeros(3), jnp.zeros(3).at[BAD].set(step)])


def run(trouble, step=40, sampler=STILL, **changes):
    arguments = {
        "key": KEY,
        "init": starts(step),
        "chains": 3,
        "draws": 120,
        "per_chain": True,
        **changes,
    }
    return sundman.sample(TROUBLES[trouble], sampler, **arguments)


def first_two(x):
    return x[:2]


def lose(trouble, **changes):
    with pytest.warns(sundman.DivergenceWarning, match="1 of 3 chains diverged"):
        return run(trouble, **changes)


def assert_frozen(draws, others, draw):
    """Finite and still from ``draw`` on; the other chains as if nothing had happened."""
    assert draws.diverged_at.tolist() == [-1, draw, -1]
    assert (draws.weight[BAD, draw:] == 0).all()
    assert (draws.weight[BAD, :draw] > 0).all()
    for leaf in [draws.values, *draws.stats.values()]:
        assert np.isfinite(leaf).all()
    for part in ("values", "weight", "last"):
        for chain in (0, 2):
            np.testing.assert_array_equal(getattr(draws, part)[chain], getattr(others, part)[chain])
    for name, wanted in others.stats.items():
        np.testing.assert_array_equal(draws.stats[name][[0, 2]], wanted[[0, 2]])


@pytest.mark.long
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_lost_chain_is_held_and_the_others_go_on(trouble):
    draws = lose(trouble)
    assert_frozen(draws, run(trouble, step=0), 40)
    assert draws.settings["diverged_step"] == [-1, 40, -1]
    held = draws.values[BAD, 40:]
    np.testing.assert_array_equal(held, np.broadcast_to(draws.values[BAD, 39], held.shape))
    np.testing.assert_array_equal(draws.last[BAD], draws.values[BAD, 39])


@pytest.mark.parametrize(("step", "draw"), [(105, 30), (107, 31)])
def test_the_step_is_exact_between_draws(step, draw):
    draws = lose("potential", step=step, thin=3, burn_in=15)
    assert draws.settings["diverged_step"] == [-1, step, -1]
    assert draws.diverged_at[BAD] == draw


def test_few_draws_before_it_count_for_nothing():
    draws = lose("potential", step=10)
    assert draws.diverged_at[BAD] == 0
    assert draws.settings["diverged_step"] == [-1, 10, -1]


def test_lost_in_the_burn_in():
    draws = lose("gradient", burn_in=60)
    assert draws.diverged_at.tolist() == [-1, 0, -1]
    assert (draws.weight[BAD] == 0).all()
    assert np.isfinite(draws.values).all()
    assert 40 <= draws.settings["diverged_step"][BAD] <= 42
    others = run("gradient", step=0, burn_in=60)
    np.testing.assert_array_equal(draws.values[[0, 2]], others.values[[0, 2]])


@pytest.mark.parametrize("burn_in", [0, 7])
def test_a_start_that_is_not_finite_is_refused(burn_in):
    start = starts(40).at[BAD, 2].set(10.0)
    with pytest.raises(ValueError, match=r"first position of chain 1 U = inf .* another init"):
        run("potential", init=start, burn_in=burn_in)


def test_lost_with_collect_and_online():
    kwargs = {"collect": first_two, "online": first_two}
    draws, others = lose("gradient", **kwargs), run("gradient", step=0, **kwargs)
    assert_frozen(draws, others, 40)
    assert np.isfinite(draws.last).all()
    assert np.isfinite(draws.online.weighted).all()
    np.testing.assert_array_equal(draws.online.weighted[[0, 2]], others.online.weighted[[0, 2]])


def test_lost_by_time():
    draws = lose("potential", step=60, thin_time=0.1)
    assert_frozen(draws, run("potential", step=0, thin_time=0.1), int(draws.diverged_at[BAD]))
    assert 28 <= draws.diverged_at[BAD] <= 30


@pytest.mark.long
@pytest.mark.parametrize("thin", [1, 3, pytest.param(200, marks=pytest.mark.slow)])
def test_lost_with_host_batches(thin):
    """Row 7, in the fourth batch, has a number whose square is infinite."""
    x = np.ones((10, 2), np.float32)
    y = np.zeros(10, np.float32)
    x[7, 0] = 1e30
    batches = HostBatches([(x[i : i + 2], y[i : i + 2]) for i in range(0, 10, 2)], size=10)
    model = sundman.Posterior(
        lambda w, x: jnp.where(w[2] > 50.0, x, 1.0) @ w[:2],
        likelihood=sundman.likelihoods.gaussian(1.0),
        data=batches,
    )
    init = jnp.column_stack([STARTS, jnp.zeros(3).at[BAD].set(100.0)])
    with pytest.warns(sundman.DivergenceWarning, match="1 of 3 chains diverged"):
        draws = sundman.sample(
            model, sundman.sgld(1e-3), key=KEY, init=init, chains=3, draws=6, thin=thin
        )
    assert draws.diverged[BAD]
    assert (draws.weight[BAD, draws.diverged_at[BAD] :] == 0).all()
    assert (draws.weight[[0, 2]] > 0).all()
    assert np.isfinite(draws.values).all()
    assert np.isfinite(draws.last).all()


def test_raise_says_where_and_what_to_change():
    said = r"chain 1 ran away at step 40 .*dt=0.05, \|grad U\|=.*smaller step \(h, now h=0.05\)"
    with pytest.raises(sundman.DivergenceError, match=said):
        run("potential", on_divergence="raise")


@pytest.mark.long
def test_restart_goes_on():
    """The noise is new, so what went wrong need not do so again."""

    def rare(x):
        return bowl(x) + jnp.where(jnp.abs(x[0]) > 2.5, jnp.inf, 0.0)

    with pytest.warns(
        sundman.DivergenceWarning, match="put back to where they were last good and went on"
    ):
        draws = sundman.sample(
            rare, SGLD, key=KEY, init=STARTS, chains=3, draws=6000, on_divergence="restart"
        )
    lost = draws.diverged
    assert lost.any()
    assert len(draws.restarts) == sum(draws.settings["diverged_times"])
    for chain in np.flatnonzero(lost):
        assert (draws.weight[chain, draws.diverged_at[chain] :] > 0).any()
    assert np.isfinite(draws.values).all()
    assert (np.abs(draws.values[..., 0])[draws.weight > 0] <= 2.5).all()
    second = draws.expectation(lambda x: x[1] ** 2)
    assert abs(second.value - 1.0) < 5 * second.error + 0.05


@pytest.mark.filterwarnings("ignore::sundman.DivergenceWarning")
def test_restarts_in_adjoining_blocks_are_two(tmp_path, monkeypatch):
    """Each is marked, though no draw between them counts; on disk, too."""
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *_: Sizes(draws=5, steps=5))

    def edge(x):
        return bowl(x) + jnp.where(jnp.abs(x[0]) > 0.3, jnp.inf, 0.0)

    settings = {"init": jnp.zeros(2), "chains": 2, "draws": 100, "on_divergence": "restart"}
    draws = sundman.sample(edge, SGLD, key=KEY, **settings, store=tmp_path / "run")
    restarts = draws.restarts
    assert len(restarts) == sum(draws.settings["diverged_times"])
    pairs = itertools.pairwise(restarts)
    assert any(one.chain == after.chain and one.until == after.draw for one, after in pairs)
    assert sum(each.until - each.draw for each in restarts) == np.sum(draws.weight == 0)
    assert all(each.until % 5 == 0 for each in restarts)
    assert sundman.Draws.open(tmp_path / "run").restarts == restarts


@pytest.mark.parametrize("on_disk", [False, True])
def test_all_chains_lost_ends_the_run(tmp_path, on_disk):
    start = starts(40).at[:, 3].set(40)
    store = {"store": tmp_path / "run"} if on_disk else {}
    with pytest.warns(sundman.DivergenceWarning, match="3 of 3 chains diverged"):
        draws = run("potential", init=start, **store)
    assert len(draws) == 50
    assert (draws.weight[:, 40:] == 0).all()
    if on_disk:
        again = sundman.Draws.open(tmp_path / "run")
        assert again.settings["finished"]
        assert_same(again, draws)
        assert_same(sundman.resume(tmp_path / "run"), draws)


@pytest.mark.filterwarnings("ignore::sundman.DivergenceWarning")
def test_all_chains_lost_and_killed_before_that_is_written(tmp_path, monkeypatch):
    start, write = starts(40).at[:, 3].set(40), Run.write_progress

    def dies(self, draws, progress, sync="all"):
        if progress["finished"]:
            raise Crash
        write(self, draws, progress, sync)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write_progress", dies)
        with pytest.raises(Crash):
            run("potential", init=start, store=tmp_path / "run")
    draws = sundman.resume(tmp_path / "run")
    assert draws.settings["finished"]
    assert_same(draws, run("potential", init=start))


@pytest.mark.parametrize("on_disk", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_chains_lost_in_the_burn_in(tmp_path, on_disk):
    start = starts(40).at[:, 3].set(40)
    store = {"store": tmp_path / "run"} if on_disk else {}
    with (
        pytest.warns(sundman.DivergenceWarning),
        pytest.raises(ValueError, match="every chain diverged in the burn-in"),
    ):
        run("potential", init=start, burn_in=60, **store)
    if on_disk:
        for _ in range(2):
            with pytest.raises(sundman.AllDivergedError, match="every chain diverged in the burn"):
                sundman.resume(tmp_path / "run")
        with pytest.raises(sundman.AllDivergedError, match="every chain diverged in the burn"):
            run("potential", init=start, burn_in=60, resume=True, **store)


@pytest.mark.parametrize("draws", [50, 44])
def test_a_run_that_raised_raises_again(tmp_path, draws):
    """Also if it was the last block that did."""
    with pytest.raises(sundman.DivergenceError) as first:
        run("potential", on_divergence="raise", store=tmp_path / "run", draws=draws)
    for _ in range(2):
        with pytest.raises(sundman.DivergenceError) as again:
            sundman.resume(tmp_path / "run")
        assert str(again.value) == str(first.value)


@pytest.mark.filterwarnings("ignore::sundman.DivergenceWarning")
def test_a_run_that_raised_and_was_killed_before_that_is_written(tmp_path, monkeypatch):
    write = Run.write_progress

    def dies(self, draws, progress, sync="all"):
        if "failure" in progress:
            raise Crash
        write(self, draws, progress, sync)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write_progress", dies)
        with pytest.raises(Crash):
            run("potential", on_divergence="raise", store=tmp_path / "run")
    with pytest.raises(sundman.DivergenceError, match="ran away at step"):
        sundman.resume(tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize(
    ("trouble", "policy", "piece"),
    [
        pytest.param("potential", "freeze", 2, marks=pytest.mark.slow),
        pytest.param("gradient", "freeze", 3, marks=pytest.mark.slow),
        ("gradient", "restart", 3),
        pytest.param("gradient", "restart", 5, marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::sundman.DivergenceWarning")
def test_divergence_then_crash_then_resume(tmp_path, trouble, policy, piece):
    kwargs = {"on_divergence": policy, "sampler": WARM, "online": first_two}
    whole = run(trouble, **kwargs)
    assert whole.diverged.any()
    path = tmp_path / "run"
    with pytest.raises(Crash):
        run(trouble, store=path, checkpoint_every=1, watchers=[Do(piece, crash)], **kwargs)
    assert_same(sundman.resume(path), whole)


QUIET = {
    "far out": (lambda x: 0.5e9 * jnp.sum(x**2), jnp.full(2, 2.0), sundman.sgld(1e-10)),
    "falls by 1e9": (bowl, jnp.full(2, 3.2e4), SGLD),
    "at the mode": (lambda x: 0.5 * jnp.sum(x**2), jnp.zeros(10_000), sundman.sgld(0.1)),
    "no noise": (bowl, jnp.ones(2), sundman.sgld(0.1, temperature=0.0)),
    "unbounded": (lambda x: -jnp.sum(x**2), jnp.ones(2), sundman.sgld(0.05, temperature=0.0)),
    "hot": (lambda x: 0.5e-4 * jnp.sum(x**2), jnp.zeros(2), sundman.sgld(1.0, temperature=1e4)),
}


@pytest.mark.parametrize("case", QUIET)
def test_no_false_alarm(case):
    target, start, sampler = QUIET[case]
    for burn_in in (0, 50):
        draws = sundman.sample(target, sampler, key=KEY, init=start, draws=150, burn_in=burn_in)
    assert not draws.diverged.any()
    assert (draws.weight > 0).all()


def test_no_false_alarm_by_an_outlier_row():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)).astype(np.float32)
    y = (x.sum(axis=1) + rng.normal(size=1000)).astype(np.float32)
    y[17] = 100.0
    model = sundman.Posterior(
        lambda w, x: x @ w, likelihood=sundman.likelihoods.gaussian(1.0), data=(x, y)
    )
    draws = sundman.sample(
        model, sundman.sgld(1e-5), key=KEY, init=jnp.ones(3), draws=600, batch_size=10
    )
    assert not draws.diverged.any()


def nowhere(x):
    """U is not a number beyond 0.5, but its gradient is that of the bowl."""
    return 0.5 * jnp.sum(x**2) + jnp.where(x[0] > 0.5, jnp.nan, 0.0)


@pytest.mark.parametrize(
    "options",
    [{"steps": 5000}, {"steps": 5000, "thin": 10}, {"draws": 500, "thin_time": 0.5}],
    ids=["every step", "thinned", "by time"],
)
@pytest.mark.parametrize("sampler", [SGLD, sundman.baoab(0.2)], ids=["sgld", "baoab"])
def test_no_nan_is_lost(sampler, options, monkeypatch):
    """Every chain that meets one is flagged, however long the block and wherever in it."""
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(5000, 5000))
    init = jnp.full(2, -0.5)
    with pytest.warns(sundman.DivergenceWarning, match="4 of 4 chains"):
        draws = sundman.sample(nowhere, sampler, init=init, key=KEY, chains=4, **options)
    assert draws.diverged.all()
    assert np.isfinite(draws.stats["potential"][draws.weight > 0]).all()
    assert not (draws.position[..., 0][draws.weight > 0] > 0.5).any()


@pytest.mark.parametrize("draws", [0, 1], ids=["draws first", "chains first"])
@pytest.mark.parametrize("place", [0, 1, 77, 2500, 4998, 4999])
def test_one_nan_among_thousands_of_draws_is_seen(place, draws):
    potential = np.random.default_rng(0).normal(size=(5000, 3)).astype(np.float32)
    potential[place, BAD] = np.nan
    potential = np.moveaxis(potential, 0, draws)
    record = Record((), jnp.ones_like(potential), {"potential": jnp.asarray(potential)})
    low, positions = jnp.full(3, jnp.inf), jnp.zeros((3, 2))

    def worst(count):
        see = jax.jit(guard.of_records, static_argnums=(5, 6))
        return np.asarray(see(record, jnp.uint32(count), low, positions, 1.0, draws, 1).worst)

    fine = worst(5000) < guard.RUNAWAY
    assert fine.tolist() == [True, False, True]
    assert not place or (worst(place) < guard.RUNAWAY).all()  # what comes after the draws is room


REDUCTIONS = {"max", "min", "amax", "amin", "reduce_max", "reduce_min", "segment_max"}
LOOKED_AT = {"run/guard.py", "contrib/monitors.py", "scaling.py"}  # isfinite is reduced there, too


def test_reductions_that_may_drop_nan_are_few():
    """jnp.max and jnp.min drop NaN in long reductions on some CPUs: reduce isfinite on its own."""
    package = Path(sundman.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            is_call = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_call and node.value.id in ("jnp", "lax") and node.attr in REDUCTIONS:
                found.add(file.relative_to(package).as_posix())
    assert found <= LOOKED_AT
