"""``sundman predict``: a table is sampled, new rows are predicted as the test rows were."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest

from sundman.cli.bnn.data import DataSettings, load
from sundman.cli.bnn.predictions import write_data_files
from sundman.cli.output import prepare_directory, write_results
from tests.cli.tables import houses, write_table

SMALL = ["--sampler", "sgld", "--width", "4", "--depth", "1", "--epochs", "40", "--batch", "24"]


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def floats(rows, name):
    return np.array([float(row[name]) for row in rows])


def refuse_constant(constant):
    raise AssertionError(f"{constant} is not JSON")


@pytest.mark.long
@pytest.mark.usefixtures("blank_figures")
def test_a_table_is_sampled_and_new_rows_are_predicted(succeeds, here, tmp_path):
    table = houses()
    table["size"][0] = table["city"][1] = ""
    write_table(tmp_path / "houses.csv", table, ";")
    code, _, err = here("bnn", "--csv", "houses.csv", "--target", "price", "--drop", "nothing")
    assert code == 2
    assert "no column 'nothing' (--drop)" in err
    out = succeeds("bnn", "--csv", "houses.csv", "--target", "price", *SMALL, "-o", "run")
    for part in ("Cells are separated by semicolons.", "Names made 0/1", "Gaps filled", "Verdict"):
        assert part in out
    assert "48 rows to train on, 12 held out" in out
    assert "Coverage of intervals" in (tmp_path / "run/report.html").read_text()
    text = (tmp_path / "run/results.json").read_text()
    assert json.loads(text, parse_constant=refuse_constant)["half_interval_95"]["RMSE"] is None

    split = json.loads((tmp_path / "run/split.json").read_text())
    assert (len(split["train"]), len(split["test"])) == (48, 12)
    tested = read(tmp_path / "run/test-predictions.csv")
    assert [int(row["row"]) for row in tested] == split["test"]
    price = np.array(table["price"])[split["test"]]
    assert floats(tested, "target") == pytest.approx(price, rel=1e-5)
    rmse = np.sqrt(np.mean((floats(tested, "mean") - price) ** 2))
    assert rmse == pytest.approx(json.loads(text)["scores"]["seed-0"]["RMSE"], rel=1e-4)

    assert succeeds("predict", "run", "houses.csv", "-o", "new.csv") == ""
    new = read(tmp_path / "new.csv")
    assert len(new) == 60
    assert list(new[0]) == ["row", "mean", "sd", "lower_90", "upper_90"]
    for name in ("mean", "sd", "lower_90", "upper_90"):
        at_test_rows = floats(new, name)[split["test"]]
        assert at_test_rows == pytest.approx(floats(tested, name), rel=1e-4)
    assert (floats(new, "lower_90") < floats(new, "upper_90")).all()

    write_table(tmp_path / "two.csv", {"city": ["Paris", ""], "size": ["", "80"]})
    code, out, err = here("predict", "run", "two.csv")
    assert code == 0
    assert out.count("\n") == 3
    assert err == "sundman: note: 1 row has a level of 'city' that has no feature\n"
    for arguments, part in {
        ("run", "two.csv", "-o", "new.csv"): "--force to replace it",
        ("nowhere", "two.csv"): "there is nothing at nowhere",
        (".", "two.csv"): "give the --output of a finished sundman bnn --csv",
        ("run", "no.csv"): "there is no file no.csv; give sundman predict a CSV file",
        ("run", "run/split.json"): "no rows",
    }.items():
        code, out, err = here("predict", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert part in err
    (tmp_path / "run/results.json").unlink()
    assert "go on with: sundman resume run" in here("predict", "run", "two.csv")[2]


@pytest.mark.long
@pytest.mark.usefixtures("blank_figures")
def test_classes_are_scored_over_seeds_and_predicted_with_their_names(succeeds, tmp_path):
    write_table(tmp_path / "t.csv", houses())
    table = ["--csv", "t.csv", "--target", "city", "--seeds", "2"]
    out = succeeds("bnn", *table, *SMALL, "-o", "run")
    for word in ("NLL", "accuracy %", "ECE", "mean ± 95% interval", "Report:"):
        assert word in out
    written = json.loads((tmp_path / "run/results.json").read_text())
    both = [written["scores"][f"seed-{seed}"]["NLL"] for seed in (0, 1)]
    assert written["mean"]["NLL"] == pytest.approx(np.mean(both))
    half = 12.706 * np.std(both, ddof=1) / np.sqrt(2)
    assert written["half_interval_95"]["NLL"] == pytest.approx(half, rel=1e-3)
    assert "Reliability diagram" in (tmp_path / "run/report.html").read_text()
    succeeds("resume", "run")  # what is finished is not done again
    assert json.loads((tmp_path / "run/results.json").read_text()) == written

    tested = read(tmp_path / "run/test-predictions.csv")
    assert list(tested[0]) == ["row", "target", "class", "p_Bern", "p_Oslo", "p_Rome"]
    rows = [int(row["row"]) for row in tested]
    assert [row["target"] for row in tested] == [houses()["city"][i] for i in rows]
    succeeds("predict", "run", "t.csv", "-o", "new.csv")
    new = read(tmp_path / "new.csv")
    share = np.stack([floats(new, f"p_{name}") for name in ("Bern", "Oslo", "Rome")])
    assert share.sum(axis=0) == pytest.approx(1.0, abs=1e-5)
    chosen = np.array(["Bern", "Oslo", "Rome"])[share.argmax(axis=0)]
    assert chosen.tolist() == [row["class"] for row in new]
    # The test rows were averaged over all steps, new ones over the draws that were kept.
    assert share[2, rows] == pytest.approx(floats(tested, "p_Rome"), abs=0.05)
    prepare_directory(tmp_path / "run", force=True)  # all files there are known as results
    assert not any((tmp_path / "run").iterdir())


def test_weights_that_were_not_kept(here, tmp_path, monkeypatch):
    table = write_table(tmp_path / "t.csv", houses())
    loaded = load(DataSettings(csv=str(table), target="price"))
    write_data_files(tmp_path, loaded)
    write_results(tmp_path, {})
    monkeypatch.setattr("sundman.cli.bnn.predictions.runs_in", lambda path: {"seed-0": path})
    monkeypatch.setattr("sundman.Draws.open", lambda path: SimpleNamespace(has_position=False))
    code, _, err = here("predict", ".", "t.csv")
    assert code == 2
    assert "a smaller --width or a larger --thin" in err


def test_results_are_valid_json(tmp_path):
    numbers = {"a": float("nan"), "b": [np.float32(1.5), np.inf], "c": {"d": (1, "x", None, True)}}
    write_results(tmp_path, numbers)
    text = (tmp_path / "results.json").read_text()
    read_back = json.loads(text, parse_constant=refuse_constant)
    assert read_back == {"a": None, "b": [1.5, None], "c": {"d": [1, "x", None, True]}}


def test_shell_completion(here, monkeypatch, capsys):
    monkeypatch.setenv("_SUNDMAN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "sundman pre")
    monkeypatch.setenv("COMP_CWORD", "1")
    with pytest.raises(SystemExit) as ended:
        here()
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == "predict"
