"""Seeds as an array of tasks: the same numbers as by one command, whoever does which."""

import json

import pytest

from sundman.cli import farm
from sundman.cli.errors import UserError

NET = [
    *("bnn", "digits", "--sampler", "sgld", "--step", "0.01", "--width", "4", "--depth", "1"),
    *("--epochs", "2", "--batch", "360", "--thin", "1", "--seeds", "3"),
]


def scores(path):
    return json.loads((path / "results.json").read_text())["scores"]


@pytest.mark.long
def test_tasks_share_a_directory_and_the_last_makes_the_report(here, tmp_path):
    array = [*NET, "--array-tasks", "2", "--output", "shared", "--array-task"]
    code, said, _ = here(*array, "0")
    assert (code, "2 of 2" in said) == (0, False)
    assert "Task 0 of 2 is done; 1 seeds to go." in said
    assert not (tmp_path / "shared" / "results.json").exists()
    code, _, error = here("merge", "shared")
    assert (code, "1 of 3 runs are not finished: seed-1; run their tasks again" in error) == (
        2,
        True,
    )
    code, said, _ = here(*array, "1")
    assert code == 0
    assert "Report:" in said
    assert here(*NET, "--output", "alone")[0] == 0
    assert scores(tmp_path / "shared") == scores(tmp_path / "alone")
    code, _, error = here(*array, "0", "--width", "5")
    assert (code, "holds results of other settings" in error) == (2, True)


@pytest.mark.slow
def test_directories_of_several_machines_are_merged(here, tmp_path):
    for number, place in enumerate(("one", "two")):
        array = ["--array-tasks", "2", "--array-task", number, "--output", place]
        assert here(*NET, *array)[0] == 0
    code, _, error = here("merge", "all", "one", "two")
    assert code == 0, error
    assert sorted(scores(tmp_path / "all")) == ["seed-0", "seed-1", "seed-2"]
    (tmp_path / "two" / "settings.toml").write_text('command = "bnn"\nseeds = 9\n')
    code, _, error = here("merge", "all", "two")
    assert (code, "was made with other settings than" in error) == (2, True)


@pytest.mark.parametrize(
    ("number", "of", "words"),
    [
        (None, 4, "--array-tasks 4 needs --array-task"),
        (3, 3, "--array-task must be from 0 to 2, got 3; of Slurm, use --array=0-2"),
        (0, 0, "--array-tasks must be 1 or more, got 0"),
    ],
)
def test_a_task_that_cannot_be(number, of, words):
    with pytest.raises(UserError, match=words):
        farm.task_of(number, of, 40)


def test_tasks_do_all_units_between_them(monkeypatch):
    assert farm.task_of(None, None, 40) is None
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "1")  # one task, submitted again
    assert farm.task_of(7, None, 40) == (7, 40)
    assert farm.task_of(7, 8, 40) == (7, 8)
    shares = [farm.Task(n, 3).share(range(10)) for n in range(3)]
    assert sorted(n for share in shares for n in share) == list(range(10))


def test_a_task_needs_the_directory_of_all(here):
    code, _, error = here(*NET, "--array-task", "0")
    assert (code, "share a directory; give --output" in error) == (2, True)
