"""Rules that end a run before its steps are used up: where they do, also when it is resumed."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.run import schedule
from sundman.run.schedule import Sizes
from sundman.store.files import StoreError
from tests.store.runs import Crash, Do, assert_same, crash

SAMPLER = sundman.sgld(0.05)
RULE = sundman.until(ess=150, rhat=1.05)


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


def run(path=None, until=RULE, **changes):
    arguments = {
        "key": jax.random.key(3),
        "init": jnp.ones(2),
        "chains": 2,
        "draws": 5_000,
        "progress": False,
        **changes,
    }
    if path is not None:
        arguments = {"store": path, "checkpoint_every": 1, **arguments}
    return sundman.sample(arguments.pop("target", bowl), SAMPLER, until=until, **arguments)


def usual_blocks(patch):
    """Blocks of a target whose steps take longer than a bowl's: the shortest has 50 draws."""
    patch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(3_200, 3_200))


@pytest.fixture(autouse=True)
def _usual_blocks(monkeypatch):
    usual_blocks(monkeypatch)


@pytest.fixture(scope="module")
def stopped():
    with pytest.MonkeyPatch.context() as patch:
        usual_blocks(patch)
        return run()


def worst(draws):
    """The fewest effective draws and the largest R-hat of U and the positions."""
    every = [draws.stats["potential"], *(draws.values[..., i] for i in range(2))]
    parts = [
        sundman.Draws(each, draws.weight, {}, np.full(draws.chains, -1), None) for each in every
    ]
    ess = [sundman.estimate.ess(part) for part in parts]
    return min(ess), max(sundman.estimate.split_rhat(part) for part in parts)


def test_ends_at_the_first_look_at_which_the_rule_is_met(stopped):
    """By the estimates of the library, but for the draws that are not looked at."""
    ess, rhat = worst(stopped)
    assert ess >= 150
    assert rhat <= 1.05
    ends = np.cumsum([p.draws for p in schedule.pieces(0, 5_000, 1, Sizes(3_200, 1, True))])
    looks = [n for n in ends.tolist() if n < len(stopped)]
    assert looks[0] == 100
    assert len(stopped) in ends
    for n in looks:
        ess, rhat = worst(stopped[:n])
        assert ess < 1.03 * 150 or rhat > 1.05 - 0.002
    assert stopped.ended.by == "rule"
    assert stopped.ended.look.ess == pytest.approx(worst(stopped)[0], rel=0.03)
    assert stopped.ended.look.rhat == pytest.approx(worst(stopped)[1], rel=0.002)
    assert stopped.ended.draws == len(stopped) < stopped.ended.most == 5_000


def test_draws_are_those_of_a_run_without_the_rule(stopped):
    free = run(until=None, draws=len(stopped))
    np.testing.assert_array_equal(stopped.values, free.values)
    np.testing.assert_array_equal(stopped.last, free.last)
    assert free.ended is None


def test_steps_are_the_upper_bound():
    short = run(draws=150)
    assert len(short) == 150
    assert short.ended.by == "steps"
    assert short.ended.look.ess < 150
    assert "150 draws per chain were used up before its rule, ess=150, rhat=1.05" in str(
        short.verdict
    )


def test_time_ends_it_after_a_block(monkeypatch):
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(50, 50))
    timed = run(until=sundman.until(ess=1e4, seconds=1e-9))
    assert len(timed) == 50
    assert timed.ended.by == "seconds"
    assert "Its time was up after 50 of at most 5,000 draws" in str(timed.verdict)
    burnt = run(until=sundman.until(seconds=1e-9), burn_in=120)
    assert len(burnt) == 50  # not before there is a draw


@pytest.mark.long
def test_a_tuned_run_counts_its_warm_up_and_stops():
    target = sundman.targets.gaussian(2)
    draws = sundman.sample(
        target, key=jax.random.key(1), chains=2, steps=20_000, until=RULE, progress=False
    )
    assert draws.ended.by == "rule"
    assert len(draws) < 20_000
    late = sundman.until(seconds=draws.settings["seconds"] / 1e6)
    timed = sundman.sample(
        target, key=jax.random.key(1), chains=2, steps=20_000, until=late, progress=False
    )
    assert timed.ended.by == "seconds"


def network():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 6)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32)
    init = sundman.models.mlp_init(jax.random.key(1), (6, 30, 2))
    posterior = sundman.Posterior(sundman.models.mlp_apply, data=(x, y))
    return posterior, {"init": init, "batch_size": 40, "thin": 5}


LOSS_RULE = sundman.until(ess=100, rhat=1.2)


def run_network(**changes):
    posterior, settings = network()
    common = {"key": jax.random.key(2), "chains": 2, "draws": 400, "progress": False, **settings}
    return sundman.sample(posterior, sundman.sgld(1e-3), until=LOSS_RULE, **common, **changes)


@pytest.mark.long
def test_a_network_is_judged_by_its_loss():
    """Not by its weights."""
    look = run_network().ended.look
    assert {look.ess_of, look.rhat_of} <= {"U", "the training loss"}


@pytest.mark.slow
def test_the_loss_on_disk_is_that_in_memory(tmp_path):
    whole = run_network()
    with pytest.raises(Crash):
        run_network(store=tmp_path / "run", checkpoint_every=1, watchers=[Do(2, crash)])
    again = sundman.resume(tmp_path / "run", progress=False)
    assert_same(again, whole)
    assert again.ended.look == whole.ended.look


def test_resumed_it_stops_at_the_same_place(tmp_path, stopped):
    path = tmp_path / "run"
    with pytest.raises(Crash):
        run(path, watchers=[Do(2, crash)])
    with pytest.raises(Crash):
        sundman.resume(path, watchers=[Do(9, crash)], checkpoint_every=1, progress=False)
    resumed = sundman.resume(path, progress=False)
    assert_same(resumed, stopped)
    assert resumed.ended._replace(seconds=0) == stopped.ended._replace(seconds=0)
    opened = sundman.Draws.open(path)
    assert_same(opened, stopped)
    assert opened.ended == resumed.ended
    assert str(opened.ended) in str(opened.verdict)
    assert opened.settings["until"] == "ess=150, rhat=1.05"


def test_where_steps_take_no_time_looks_are_few():
    """Then blocks take as long as a look at least, and no look is later than at twice the draws."""
    size = Sizes(400_000, 10**7, growing=True, look=20_000)
    pieces = schedule.pieces(0, 10**6, 1, size)
    ends = np.cumsum([piece.draws for piece in pieces])
    assert set(ends[:-1].tolist()) == schedule.looks(pieces) - {10**6}
    assert len(ends) <= 8
    assert ends[0] == 20_000
    assert (ends[1:] <= 2 * ends[:-1]).all()


@pytest.mark.long
def test_resumed_where_looks_are_few_it_stops_at_the_same_place(tmp_path, monkeypatch):
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(3_200, 3_200, look=300))
    whole = run()
    assert whole.ended.by == "rule"
    assert len(whole) in (600, 1_200, 2_400, 4_800)
    with pytest.raises(Crash):
        run(tmp_path / "run", watchers=[Do(1, crash)])
    monkeypatch.undo()
    resumed = sundman.resume(tmp_path / "run", progress=False)
    assert_same(resumed, whole)
    assert resumed.ended.look == whole.ended.look


@pytest.mark.long
def test_killed_between_its_last_state_and_the_word_that_it_is_finished(
    tmp_path, stopped, monkeypatch
):
    """The rule is found to be met when it is resumed, and no draw is added."""
    from sundman.run import disk_sink

    told = disk_sink.progress_of

    def die(state, layout, *, finished, **rest):
        if finished:
            raise Crash
        return told(state, layout, finished=finished, **rest)

    monkeypatch.setattr(disk_sink, "progress_of", die)
    with pytest.raises(Crash):
        run(tmp_path / "run")
    monkeypatch.undo()
    resumed = sundman.resume(tmp_path / "run", progress=False)
    assert_same(resumed, stopped)
    assert resumed.ended.by == "rule"


def test_a_stop_by_time_is_recorded_and_not_decided_again(tmp_path, monkeypatch):
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(50, 50))
    first = run(tmp_path / "run", until=sundman.until(seconds=1e-9))
    again = sundman.resume(tmp_path / "run")
    assert again.settings["finished"]
    assert_same(again, first)
    assert again.ended == first.ended


@pytest.mark.long
def test_extended_beyond_its_rule(tmp_path, stopped):
    """Without the rule that ended it, and bit for bit; then with another one."""
    path = tmp_path / "run"
    n = len(run(path))
    longer = sundman.extend(path, draws=333, progress=False)
    assert_same(longer, run(until=None, draws=n + 333))
    assert longer.ended is None
    assert "until" not in longer.settings
    assert longer.settings["draws"] == n + 333
    again = sundman.extend(path, draws=5_000, until=sundman.until(ess=300), progress=False)
    assert again.ended.by == "rule"
    assert n + 333 < len(again) < n + 5_333
    assert_same(again, run(until=None, draws=len(again)))
    assert sundman.Draws.open(path).settings["until"] == "ess=300"


def test_extended_with_the_rule_that_was_not_met(tmp_path, stopped):
    run(tmp_path / "run", draws=150)
    longer = sundman.extend(tmp_path / "run", draws=4_850, progress=False)
    assert_same(longer, stopped)
    assert longer.ended._replace(seconds=0) == stopped.ended._replace(seconds=0)


def test_extended_after_its_time(tmp_path, monkeypatch, stopped):
    """The time that is up does not hold any more, what was not met does."""
    first = run(tmp_path / "run", until=sundman.until(ess=150, rhat=1.05, seconds=1e-9))
    assert first.ended.by == "seconds"
    longer = sundman.extend(tmp_path / "run", draws=5_000 - len(first), progress=False)
    assert_same(longer, stopped)
    assert longer.settings["until"] == "ess=150, rhat=1.05"


def test_a_run_without_a_rule_extended_with_one(tmp_path):
    """Its blocks do not grow: it is looked at where they end."""
    run(tmp_path / "run", until=None, draws=120)
    longer = sundman.extend(tmp_path / "run", draws=4_000, until=RULE, progress=False)
    assert longer.ended.by in ("rule", "steps")
    assert_same(longer, run(until=None, draws=len(longer)))


def test_another_rule_is_another_run(tmp_path):
    with pytest.raises(Crash):
        run(tmp_path / "run", watchers=[Do(2, crash)])
    with pytest.raises(StoreError, match=r"until: the stored run has ess=150, rhat=1\.05, this"):
        run(tmp_path / "run", until=sundman.until(ess=20), resume=True)
    assert len(run(tmp_path / "run", resume=True)) < 5_000


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"thin_time": 0.1, "until": sundman.until(ess=60)},
        {"collect": jnp.square, "online": jnp.square, "weighting": "arriving"},
        {"on_divergence": "restart", "burn_in": 7, "thin": 3},
    ],
    ids=["time", "collected", "thinned"],
)
def test_other_kinds_of_runs(tmp_path, changes):
    whole = run(**changes)
    assert whole.ended.by == "rule"
    with pytest.raises(Crash):
        run(tmp_path / "run", watchers=[Do(4, crash)], **changes)
    assert_same(sundman.resume(tmp_path / "run", progress=False), whole)


def test_what_is_looked_at_does_not_depend_on_how_it_came(stopped):
    """The trace of many short blocks, with room made on the way, is that of one long block."""
    from sundman.run.spec import RunSpec
    from sundman.run.stopping import _Trace

    spec = RunSpec(**{name: None for name in RunSpec.__dataclass_fields__} | {"chains": 2})
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 30_011, 3))
    w, U = rng.uniform(size=(2, 30_011)), rng.normal(size=(2, 30_011))
    one, many = _Trace(spec, 1.0), _Trace(spec, 1.0)
    one.begin(x)
    one.make_room(30_011)
    one.add(x, w, U)
    begin = 0
    while begin < 30_011:
        part = slice(begin, begin := min(begin + int(rng.integers(1, 900)), 30_011))
        many.add(x[:, part], w[:, part], U[:, part])
    np.testing.assert_array_equal(one._values, many._values)
    np.testing.assert_array_equal(one._weight, many._weight)
    assert one._values.shape[1] <= 2048
    assert one.look("", 0) == many.look("", 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of ess, rhat and seconds"),
        ({"ess": 0}, "ess must be greater than 0"),
        ({"ess": True}, "ess must be a number"),
        ({"rhat": 1.0}, "rhat must be above 1"),
        ({"rhat": float("nan")}, "rhat must be finite"),
        ({"seconds": "a minute"}, "seconds must be a number"),
        ({"seconds": -3}, "seconds must be greater than 0"),
    ],
)
def test_rules_that_make_no_sense(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sundman.until(**arguments)


def test_runs_that_a_rule_does_not_fit():
    with pytest.raises(TypeError, match=r"until must be a rule, such as sundman.until\(ess=400\)"):
        run(until={"ess": 400})
    with pytest.raises(ValueError, match="ess=20000 cannot be reached: 2 chains of at most 5,000"):
        run(until=sundman.until(ess=20_000))
    stacked = jax.vmap(sundman.sgld)(jnp.array([0.05, 0.1]))
    common = {"key": jax.random.key(0), "init": jnp.ones(2), "chains": 2, "draws": 400}
    with pytest.raises(ValueError, match="settings of their own"):
        sundman.sample(bowl, stacked, until=RULE, **common)
    free = sundman.sample(bowl, stacked, until=sundman.until(seconds=600), **common)
    assert free.ended.by == "steps"


def test_all_chains_lost():
    """The rule says so and does not go on."""
    with pytest.warns(sundman.DivergenceWarning):
        lost = sundman.sample(
            lambda x: jnp.sum(jnp.square(x) ** 2), sundman.sgld(0.3), key=jax.random.key(0),
            init=jnp.ones(2), chains=2, draws=20_000, until=sundman.until(ess=1e4), progress=False,
        )  # fmt: skip
    assert lost.ended.by == "divergence"


def test_watchers_are_told(tmp_path):
    class Told:
        def __init__(self):
            self.logged = []

        def log(self, values, step):
            self.logged.append(values)

    told, log = Told(), tmp_path / "log.jsonl"
    draws = run(watchers=[told, sundman.JsonLines(log)])
    assert told.logged[-1]["run/ess"] == draws.ended.look.ess
    assert told.logged[-1]["run/rhat"] == draws.ended.look.rhat
    lines = sundman.read_log(log)
    (end,) = [line for line in lines if line["event"] == "until"]
    assert end["message"] == str(draws.ended)
    history = sundman.watch.RunHistory()
    for line in lines:
        history.add(json.loads(json.dumps(line)))
    assert history.report.look == draws.ended.look
    assert history.events[-1] == ("until", str(draws.ended))


def test_the_progress_line_has_it():
    from sundman.watch.events import BlockReport, Look
    from sundman.watch.progress import Pace, line, lines

    look = Look("ess=400", 900, 212.4, "x[1]", 1.0212, "U")
    report = BlockReport("sampling", 3, 990, 5000, 990, 5000, 2, 0, 1.0, {}, None, look)
    text = "until ess=400: 212 effective draws of x[1], split R-hat 1.021 of U after 900 draws"
    assert text in line(report, Pace(), "sampling")
    assert "ETA at most" in line(report, Pace(), "sampling")
    assert f"  {text}" in lines(report, Pace(), "sampling", None, 80)
    assert "100%" in line(report, Pace(), "done")
