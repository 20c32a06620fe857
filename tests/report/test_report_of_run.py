"""Reports of small real runs, of every kind that may come."""

import builtins
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
import sundman.report
from sundman import citations, targets
from sundman.recipes.registry import label_of
from sundman.report import figures

ADAPTIVE = sundman.sa_sgld(5e-3, alpha=50.0, m=0.1, M=10.0, r=0.5)


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Pictures of few pixels are made in less time."""
    monkeypatch.setattr(figures, "png", partial(figures.png, dpi=50))


def figures_of(report):
    return [figure for section in report.sections for figure in section.figures]


def tables_of(report):
    return {table.title: table for section in report.sections for table in section.tables}


def titles_of(report):
    return [figure.title for figure in figures_of(report)]


def rendered(report):
    """The page, after a look at what any report of a run must have."""
    assert all(figure.alt for figure in figures_of(report))
    assert "Diagnosis" in tables_of(report)
    cells = [cell for table in tables_of(report).values() for row in table.rows for cell in row]
    assert not {"nan", "inf"} & {word for cell in cells for word in cell.split()}
    return sundman.report.render(report)


@pytest.mark.long
def test_stored_run_on_a_known_target(key, tmp_path):
    path = tmp_path / "a run"
    sundman.sample(
        targets.star(), ADAPTIVE, key=key, chains=3, burn_in=50, steps=600, thin=3, store=path
    )
    report = sundman.report.of_run(path)
    assert report.title == "SA-SGLD on star"
    verdict, rest = report.summary.split("\n\n")
    assert verdict == str(sundman.Draws.open(path).verdict)
    assert verdict.startswith("This run should not be trusted yet.")
    assert rest.startswith("3 chains of 200 draws after a burn-in of 50 steps, in ")
    assert titles_of(report) == [
        "The step.",
        "The potential.",
        "Histogram of the step.",
        "Who holds the weight.",
        "Draws and the exact density.",
        "Traces.",
    ]
    exact = tables_of(report)["Averages and their exact values"]
    assert [row[0] for row in exact.rows] == list(targets.star().truth)
    assert report.settings["dtau"] == 5e-3
    assert {"run begun", "key", "wall time", "stored at"} <= set(report.made)
    assert str(path) in report.command
    assert list(report.citations) == list(citations.entries(ADAPTIVE))
    rendered(report)


@pytest.mark.slow  # a quick one: tests/cli/test_cli_auto.py
def test_a_run_that_tuned_itself(key):
    draws = sundman.sample(targets.star(), key=key, chains=2, steps=100)
    report = sundman.report.of_run(draws, target=targets.star())
    (section,) = [each for each in report.sections if "tuned itself" in each.title]
    assert section.text.startswith(str(draws.tuning))
    assert "integrators.whitened(integrators.baoab(1.0, gamma=" in section.text
    (table,) = section.tables
    assert [row[0] for row in table.rows] == [window.stage for window in draws.tuning.windows]
    (figure,) = section.figures
    assert f"in {len(draws.tuning.windows)} windows of the warm-up" in figure.alt
    rendered(report)


def test_one_chain_of_few_draws_at_a_constant_step(key):
    draws = sundman.sample(
        lambda x: jnp.sum(x**2), sundman.lm(0.1), init=jnp.zeros(3), key=key, steps=2
    )
    report = sundman.report.of_run(draws)
    assert report.title == "LM"
    assert "\n\nOne chain of 2 draws" in report.summary
    assert report.command == ""
    assert titles_of(report) == ["The potential.", "Traces.", "One by one and in pairs."]
    rendered(report)


@pytest.mark.parametrize("lost", [1, 4])
def test_lost_chains_are_told(key, lost):
    """Chains lost in the middle, or all of them before their first draw."""
    draws = sundman.sample(targets.star(), sundman.sgld(1e-4), key=key, chains=4, steps=100)
    first = 40 if lost == 1 else 0
    weight, diverged = draws.weight.copy(), np.full(4, -1)
    weight[:lost, first:], diverged[:lost] = 0.0, first
    settings = {**draws.settings, "diverged_step": np.where(diverged < 0, -1, first + 1).tolist()}
    changed = {"weight": weight, "diverged_at": diverged, "settings": settings}
    report = sundman.report.of_run(
        sundman.Draws(**{**vars(draws), **changed}), target=targets.star()
    )
    assert f"{lost} of 4 ran away" in report.summary
    assert "Not to be trusted" in report.summary
    ends = [row[-1] for row in tables_of(report)["Chain by chain"].rows]
    assert ends == [f"✗ lost at step {first + 1}"] * lost + ["✓ sound"] * (4 - lost)
    if lost == 4:
        assert figures_of(report) == []
    else:
        assert "1 lost chain" in figures_of(report)[0].caption
    rendered(report)


@pytest.mark.long
def test_network_of_many_components_and_many_chains(key):
    position = {"kernel": jnp.zeros((20, 30)), "bias": jnp.zeros(30)}
    energy = lambda p: 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))  # noqa: E731
    draws = sundman.sample(energy, sundman.sgnht(0.05), init=position, key=key, chains=20, steps=60)
    report = sundman.report.of_run(draws)
    assert titles_of(report) == ["The potential.", "Traces."]
    assert "4 of 630 components" in figures_of(report)[-1].caption
    assert "4 of 20 chains" in figures_of(report)[0].caption
    assert len(tables_of(report)["Chain by chain"].rows) == 16
    rendered(report)


@pytest.mark.long
def test_collected_scalar_and_nothing_collected(key):
    run = {"key": key, "chains": 2, "steps": 50}
    target, sampler = targets.quartic(), sundman.sgld(0.01)
    one = sundman.sample(target, sampler, collect=lambda x: x[0] ** 2, **run)
    report = sundman.report.of_run(one, target=target)
    assert titles_of(report)[-1] == "Histogram."
    rendered(report)
    none = sundman.sample(target, sampler, collect=lambda x: (), **run)
    report = sundman.report.of_run(none)
    assert "The draws" not in [section.title for section in report.sections]
    rendered(report)


@pytest.mark.long
def test_one_step_for_each_tensor_and_equal_weights(key):
    """Steps that differ, and weights that do not, as in draws equally spaced in time."""
    clock = sundman.clocks.sundman(0.02, alpha=10.0, m=0.1, M=10.0, r=0.5, blockwise=True)
    sampler = sundman.compose(sundman.integrators.euler_maruyama(), clock)
    energy = lambda p: jnp.sum(p["a"] ** 2) + 5 * jnp.sum(p["b"] ** 2)  # noqa: E731
    init = {"a": jnp.zeros(2), "b": jnp.zeros(1)}
    draws = sundman.sample(energy, sampler, init=init, key=key, chains=2, steps=60)
    settings = {**draws.settings, "sampler": "my own, cyclical clock", "references": []}
    changed = {"weight": np.ones_like(draws.weight), "settings": settings}
    equal = sundman.Draws(**{**vars(draws), **changed})
    report = sundman.report.of_run(equal, command="make it")
    assert report.title == "my own, cyclical clock"
    assert report.command == "make it"
    assert len(report.citations) == 2  # the generator's and this library's
    assert "Every draw weighs the same." in report.sections[3].text
    assert "Who holds the weight." not in titles_of(report)
    rendered(report)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nothing_yet_and_values_that_are_not_finite():
    none, one = np.zeros((2, 0)), np.ones((2, 50))
    lost, settings = np.array([-1, -1]), {"finished": False}
    stats = {"dt": none, "potential": none}
    begun = sundman.Draws(np.zeros((2, 0, 3)), none, stats, lost, None, settings)
    report = sundman.report.of_run(begun)
    assert report.title == "A run"
    assert report.summary == (
        "2 chains of 0 draws. The run is not finished. There are no draws to judge."
    )
    rendered(report)
    values = np.random.default_rng(0).normal(size=(2, 50, 2))
    values[0, 10, 1] = np.inf
    stats = {"dt": one, "potential": values[..., 1]}
    report = sundman.report.of_run(sundman.Draws(values, one, stats, lost, None))
    assert "components not finite" in report.summary
    assert "99 points" in figures_of(report)[-1].caption
    sundman.report.render(report)


@pytest.mark.long
def test_summary_tells_of_a_bias(key):
    """Averages far from the exact ones are told up front, good as the diagnosis may be."""
    draws = sundman.sample(targets.gaussian(), sundman.sgld(0.01), key=key, chains=2, steps=20)
    far = np.asarray(targets.gaussian().exact(key, 40)).reshape(2, 20, -1) + np.float32(5.0)
    moved = sundman.Draws(**{**vars(draws), "values": far})
    summary = sundman.report.of_run(moved, target=targets.gaussian()).summary
    assert "Off by more than 3 standard errors" in summary


def test_names_of_samplers():
    clock = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5}
    assert label_of(sundman.samadams(0.1, gamma=1.0, **clock)) == "SamAdams"
    assert label_of(sundman.sa_sgnht(0.1, **clock)) == "SA-SGNHT"
    assert label_of(sundman.cyclical_sgld(0.1, cycle=9)) == "cyclical SGLD"
    cyclical = sundman.compose(sundman.integrators.baoab(), sundman.clocks.cyclical(0.1, cycle=9))
    assert label_of(cyclical) == "BAOAB, cyclical clock"


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def blind(name, *rest, **more):
        if name.split(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", blind)
    with pytest.raises(ImportError, match=r"pip install 'sundman\[report\]'"):
        sundman.report.of_run("anywhere")
