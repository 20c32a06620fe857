"""Experiments at a tiny scale: deterministic, resumable, and every one runs."""

import functools

import pytest

from studies.sa_sgld import NAMES, network, reproduce, run, toys
from studies.sa_sgld.experiment import SCALES, ResultCache, Task, ToyBudget
from studies.sa_sgld.toys import Toy

ROWS = ["gaussian/sa-sgld"]
table = functools.partial(run, "table1", scale="test", data="digits", rows=ROWS)


@pytest.fixture(autouse=True)
def _no_timing(monkeypatch):
    times = {"sgld": [1.0, 1.1, 1.0], "sa-sgld": [1.0, 1.1, 1.0]}
    monkeypatch.setattr(network, "measure_step_times", lambda chains, data: times)


@pytest.mark.slow
def test_table_is_deterministic_and_goes_on(tmp_path, monkeypatch):
    first = table(directory=tmp_path / "a", seeds=[0])
    assert (tmp_path / "a/table1-test.json").is_file()
    fresh = table(directory=tmp_path / "b", seeds=[0])
    assert fresh.numbers == first.numbers

    # a run killed after its chain was done, before it was scored
    (tmp_path / "a/units/test/table1/gaussian-sa-sgld-0.json").unlink()
    assert table(directory=tmp_path / "a", seeds=[0]).numbers == first.numbers

    def never(*arguments):
        raise AssertionError("a run that is there was done again")

    monkeypatch.setattr(network, "sample_and_score", never)
    again = table(directory=tmp_path / "a", seeds=[0])
    assert again.numbers == first.numbers
    assert again.tables == first.tables
    with pytest.raises(AssertionError, match="done again"):
        table(directory=tmp_path / "a", seeds=[1])

    # the log-probability figure needs no new run
    curves = run(
        "fig-logprob", scale="test", data="digits", directory=tmp_path / "a", rows=ROWS, seeds=[0]
    )
    assert len(curves.numbers["gaussian/sa-sgld"]["0"]) == 6
    assert curves.figures[0].png.startswith(b"\x89PNG")


@pytest.mark.long
def test_a_toy_run_is_deterministic(tmp_path):
    clock = {"alpha": 5.0, "m": 0.1, "M": 10.0, "r": 0.5, "psi": "published"}
    toy = Toy("quartic", 0.02, ToyBudget(16, 20_000, 100, 10), clock=clock, seed=1)
    one, other = (toys.run(ResultCache(tmp_path / name, "test"), "x", toy) for name in "ab")
    assert one == other
    bias = one.bias("x2")
    assert abs(bias.value - 0.069) < 5 * bias.error + 0.005


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="name must be one of"):
        run("fig-moon")
    with pytest.raises(ValueError, match="scale must be one of"):
        run("theory", scale="huge")
    with pytest.raises(ValueError, match="the rows are"):
        run("table1", scale="test", data="digits", rows=["laplace/sgld"], seeds=[0])


def test_every_scale_is_there():
    assert set(SCALES) == {"test", "quick", "standard", "paper"}
    table = SCALES["paper"].table
    assert (table.width, table.epochs, table.burn_in, table.thin) == (1200, 200, 100, 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs(name, tmp_path):
    result = run(name, scale="test", data="digits", directory=tmp_path)
    assert result.verdicts
    assert result.tables
    assert all(len(figure.png) < 150_000 for figure in result.figures)
    assert type(result).read(tmp_path / f"{name}-test.json") == result
    again = run(name, scale="test", data="digits", directory=tmp_path)
    assert again.numbers == result.numbers


@pytest.mark.slow
def test_experiments_beside_each_other_give_the_same(tmp_path, monkeypatch):
    beside = (("fig-muller-brown",), ("theory",))
    monkeypatch.setattr(reproduce, "_BESIDE", beside)
    monkeypatch.setattr(reproduce, "NAMES", ("fig-muller-brown", "theory"))
    lines = []
    console = type("Console", (), {"print": lambda self, *objects: lines.append(objects)})()
    task = Task(ResultCache(tmp_path / "beside", "test", console), SCALES["test"])
    together = reproduce._all_in_processes(task, 2)
    assert len(lines) == 2
    for result in together:
        alone = run(result.name, scale="test", directory=tmp_path / "alone")
        assert result.numbers == alone.numbers
        assert result.verdicts == alone.verdicts
