"""Tables as people have them, by ``sundman bnn --csv`` and by a random forest.

    python -m studies.tables.tables [--only "60 rows"]

Three tables are made: 20,000 house prices in raw units, with names, gaps, a number of the row and a
column that never changes; 1,500 rows of three classes with names; 60 of the house prices. On each
of five splits the command is run as a user types it, without a setting, and the forest of
scikit-learn with its own defaults learns from the same features of the same rows. RMSE or log loss
on the held-out rows, the difference of the two with its standard error over the splits, how many
held-out prices are in the 90% intervals, and the verdict. Twelve held-out rows say little about
intervals, so the networks of the 60 rows also predict 2,000 new ones, by ``sundman predict``.

Two more tables stand beside a perceptron of scikit-learn, the best of twelve settings on a fifth of
the training rows: 16,000 rows whose noise has the standard deviation 1.5, and airfoil self-noise
(1,503 rows), where ``tabular/airfoil.csv`` is in the data directory.

Is the verdict true? It asks for 100 effective draws, which is an error of a tenth of a posterior
standard deviation. The first split is run with a second seed, and the error of what the network
predicts for up to 200 held-out rows (the mean of a price, the probabilities of the classes) is the
difference of the two runs by sqrt(2), in posterior standard deviations, as a root mean square.

Results go to ``results/tables.json``, a split at a time; what is there is not run again.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.neural_network import MLPRegressor

import sundman
from studies.report import settings
from sundman import estimate
from sundman.cli.bnn.data import DataSettings, load
from sundman.cli.bnn.plan import BnnSettings, make_plan
from sundman.cli.settings import Request

RESULTS = Path(__file__).parent / "results" / "tables.json"
SPLITS, ROWS = 5, 200
DISTRICTS = ("Harbour", "Old Town", "Mill Hill", "Station", "Lakeside", "Oakwood", "Airport",
             "Riverside", "Castle", "Northgate")  # fmt: skip
CONDITIONS = ("poor", "fair", "good", "renovated")

Columns = dict[str, np.ndarray]


def houses(rows: int, seed: int) -> Columns:
    """Prices with a noise of 40,000; an area or a year is missing now and then."""
    rng = np.random.default_rng(seed)
    area = np.exp(rng.normal(4.6, 0.35, rows)).round(1)
    rooms = np.clip(np.round(area / 28 + rng.normal(0, 0.7, rows)), 1, 9)
    year = rng.integers(1890, 2024, rows)
    centre = rng.gamma(2.0, 3.0, rows).round(2)
    garden = np.where(rng.random(rows) < 0.5, 0.0, rng.gamma(2.0, 120.0, rows)).round()
    district = rng.choice(len(DISTRICTS), rows, p=np.linspace(2, 1, 10) / 15)
    condition = rng.choice(len(CONDITIONS), rows, p=(0.15, 0.35, 0.35, 0.15))
    per_metre = 2_500 + 2_800 * np.exp(-centre / 4) + 120.0 * district
    price = 60_000 + area * per_metre * np.array([0.75, 0.95, 1.05, 1.25])[condition]
    price += 400 * np.sqrt(garden) * (1 + (centre > 6)) + 45_000 * np.cos((year - 1890) / 25)
    price += np.where(rooms > 5, 25_000, 0) + rng.normal(0, 40_000, rows)
    return {
        "id": np.arange(10_001, 10_001 + rows),
        "area": _with_gaps(rng, area, 0.02),
        "rooms": rooms.astype(int),
        "year built": _with_gaps(rng, year, 0.1),
        "km to centre": centre,
        "garden": garden.astype(int),
        "district": np.array(DISTRICTS)[district],
        "condition": _with_gaps(rng, np.array(CONDITIONS)[condition], 0.05),
        "country": np.full(rows, "Ruritania"),
        "price": price.round().astype(int),
    }


def plants(rows: int, seed: int) -> Columns:
    """Three classes that overlap, by two lengths, a weight and the name of a soil."""
    rng = np.random.default_rng(seed)
    length, width = rng.normal(40.0, 6.0, rows).round(1), rng.normal(12.0, 3.0, rows).round(1)
    weight = np.exp(rng.normal(3.0, 0.5, rows)).round(2)
    soil = rng.choice(("clay", "loam", "peat", "sand"), rows)
    a, b, c = (length - 40) / 6, (width - 12) / 3, np.log(weight) - 3
    logits = np.stack(
        [
            2.0 * a * b + np.where(soil == "peat", 1.5, 0.0),
            2.0 * np.sin(2 * a) + 1.5 * c,
            1.5 * (b**2 - 1) - np.where(soil == "sand", 1.5, 0.0),
        ]
    )
    kind = np.argmax(1.5 * logits + rng.gumbel(size=logits.shape), axis=0)
    return {
        "length": _with_gaps(rng, length, 0.05),
        "width": width,
        "weight": weight,
        "soil": _with_gaps(rng, soil, 0.03),
        "kind": np.array(("avens", "bistort", "campion"))[kind],
    }


def waves(rows: int, seed: int) -> Columns:
    """Eight features, of which five matter, and a noise of 1.5."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 8))
    y = 2.0 * x[:, 0] + 1.5 * np.sin(2.0 * x[:, 1]) + x[:, 2] * x[:, 3] + np.abs(x[:, 4])
    columns = {f"x{i}": column.round(4) for i, column in enumerate(x.T)}
    return {**columns, "target": (y + 1.5 * rng.normal(size=rows)).round(4)}


def airfoil() -> Columns:
    """The self-noise of airfoils in a wind tunnel."""
    path = Path(os.environ.get("SUNDMAN_DATA_DIR", "../shared/data")) / "tabular" / "airfoil.csv"
    return _read(path)


def _with_gaps(rng: np.random.Generator, column: np.ndarray, share: float) -> np.ndarray:
    return np.where(rng.random(len(column)) < share, "", column.astype(str))


TABLES: dict[str, tuple[Callable[[], Columns], str]] = {
    "60 rows": (lambda: houses(60, seed=1), "price"),
    "three classes": (lambda: plants(1_500, seed=2), "kind"),
    "20,000 house prices": (lambda: houses(20_000, seed=3), "price"),
    "16,000 rows, noise 1.5": (lambda: waves(16_000, seed=4), "target"),
    "airfoil": (airfoil, "target"),
}


def write_table(path: Path, columns: Columns) -> Path:
    """Columns as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def _read(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name != "class"
    }


def command(*words: str | Path) -> list[str]:
    """``sundman`` with these words."""
    return [sys.executable, "-m", "sundman.cli", *map(str, words)]


def forest(table: Path, target: str, task: str, split: int) -> dict[str, float]:
    """The scores of a forest on the features and the split of the command."""
    data = load(DataSettings(csv=str(table), target=target, task=task, split=split)).data
    if data.classes is None:
        tree = RandomForestRegressor(random_state=split).fit(data.train.x, data.train.y)
        error = (tree.predict(data.test.x) - data.test.y) * data.y_scale
        return {"RMSE": float(np.sqrt(np.mean(error**2)))}
    tree = RandomForestClassifier(random_state=split).fit(data.train.x, data.train.y)
    shares = np.clip(tree.predict_proba(data.test.x), 1e-15, 1.0)  # none of the trees said so
    return {"NLL": float(-np.mean(np.log(shares[np.arange(len(data.test.y)), data.test.y])))}


def perceptron(table: Path, target: str, split: int) -> float:
    """The RMSE of a perceptron with early stopping, the best of twelve on validation rows."""
    data = load(DataSettings(csv=str(table), target=target, task="regression", split=split)).data
    x, y = np.asarray(data.train.x), np.asarray(data.train.y).ravel()
    held = np.random.default_rng(split).random(len(y)) < 0.2

    def fitted(rows: np.ndarray, sizes: tuple[int, ...], rate: float, alpha: float) -> MLPRegressor:
        network = MLPRegressor(
            hidden_layer_sizes=sizes, learning_rate_init=rate, alpha=alpha, early_stopping=True,
            n_iter_no_change=30, max_iter=1000, random_state=split,
        )  # fmt: skip
        return network.fit(x[rows], y[rows])

    settings_of = itertools.product(((50,), (50, 50), (100, 100)), (1e-3, 1e-2), (1e-4, 1e-2))
    best = min(
        settings_of,
        key=lambda s: float(np.mean((fitted(~held, *s).predict(x[held]) - y[held]) ** 2)),
    )
    error = fitted(np.ones(len(y), bool), *best).predict(np.asarray(data.test.x))
    error = (error - np.asarray(data.test.y).ravel()) * float(np.ravel(data.y_scale)[0])
    return float(np.sqrt(np.mean(error**2)))


def predictions(output: Path, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation of what a network predicts for some held-out rows."""
    plan = make_plan(Request(BnnSettings.read(output / "settings.toml")))
    some = jnp.asarray(plan.data.test.x[:ROWS])
    draws = sundman.Draws.open(output / "runs" / f"seed-{seed}")
    values = estimate.evaluate(draws, functools.partial(plan.posterior.predict, x=some))
    values = np.asarray(jax.tree.leaves(values)[0], np.float64)  # (chain, draw, row, ...)
    weight = np.asarray(draws.weight, np.float64)
    weight = (weight / weight.sum()).reshape(*weight.shape, *[1] * (values.ndim - 2))
    mean = (weight * values).sum((0, 1))
    return mean, np.sqrt((weight * (values - mean) ** 2).sum((0, 1)))


def one(name: str, split: int, folder: Path) -> dict[str, Any]:
    """One split of one table."""
    make, target = TABLES[name]
    task = "classification" if target == "kind" else "regression"
    table = write_table(folder / "table.csv", make())
    output, again = folder / "run", folder / "again"
    call = command("bnn", "--csv", table, "--target", target, "--task", task, "--split", str(split))
    began, cpu = time.monotonic(), _children()
    subprocess.run([*call, "--output", str(output)], check=True)
    result = {"seconds": time.monotonic() - began, "cpu seconds": _children() - cpu}
    if split == 0:
        subprocess.run([*call, "--output", str(again), "--seed", "1"], check=True)
        (first, sd), (second, other) = predictions(output, 0), predictions(again, 1)
        ratio = (first - second) / np.hypot(sd, other)
        result["error of predictions, posterior sd"] = float(np.sqrt(np.mean(ratio**2)))
    found = json.loads((output / "results.json").read_text())
    result |= {"network": found["scores"]["seed-0"], "verdict": found["verdict"]["seed-0"]}
    result["temperature"] = found["temperature"].get("seed-0")
    result["forest"] = forest(table, target, task, split)
    if target == "target":
        result["perceptron, RMSE"] = perceptron(table, target, split)
    if name == "60 rows":
        new = houses(2_000, seed=100)
        path = folder / "predicted.csv"
        subprocess.run(
            command("predict", output, write_table(folder / "new.csv", new), "--output", path,
                    "--force"),
            check=True,
        )  # fmt: skip
        predicted, truth = _read(path), new["price"].astype(float)
        inside = (predicted["lower_90"] <= truth) & (truth <= predicted["upper_90"])
        result["new rows"] = {
            "RMSE": float(np.sqrt(np.mean((predicted["mean"] - truth) ** 2))),
            "coverage of 90% intervals, %": 100 * float(inside.mean()),
        }
    return result


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _mean(values: list[float]) -> list[float]:
    return [float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))]


def summary(splits: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the splits with their standard errors."""
    score = next(iter(splits[0]["forest"]))
    both = {who: [each[who][score] for each in splits] for who in ("network", "forest")}
    made: dict[str, Any] = {f"{who}, {score}": _mean(values) for who, values in both.items()}
    made["network - forest"] = _mean([a - b for a, b in zip(*both.values(), strict=True)])
    coverage = "coverage of 90% intervals, %"
    if score == "RMSE":
        made[coverage] = _mean([each["network"][coverage] for each in splits])
        made["temperature"] = [each["temperature"] for each in splits]
    if "perceptron, RMSE" in splits[0]:
        made["perceptron, RMSE"] = _mean([each["perceptron, RMSE"] for each in splits])
    if "new rows" in splits[0]:
        for key in ("RMSE", coverage):
            made[f"new rows, {key}"] = _mean([each["new rows"][key] for each in splits])
    key = "error of predictions, posterior sd"
    made[key] = splits[0][key]
    made["verdicts"] = [each["verdict"]["status"] for each in splits]
    made["cpu seconds"] = _mean([each["cpu seconds"] for each in splits])
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TABLES)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    results |= {"command": "python -m studies.tables.tables", "settings": settings()}
    for name in [options.only] if options.only else TABLES:
        row = results.setdefault(name, {"splits": []})
        while len(row["splits"]) < options.splits:
            with tempfile.TemporaryDirectory() as folder:
                row["splits"].append(one(name, len(row["splits"]), Path(folder)))
            if len(row["splits"]) > 1:
                row["summary"] = summary(row["splits"])
            options.output.write_text(json.dumps(results, indent=1) + "\n")
        print(name, json.dumps(row["summary"], indent=1))


if __name__ == "__main__":
    main()
