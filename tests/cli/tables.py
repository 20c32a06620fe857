"""Tables for the tests of the command line."""

import csv

import numpy as np

ROWS = 60


def write_table(path, columns, delimiter=","):
    """Columns by name as a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def houses(rows=ROWS, seed=0):
    """Sizes, cities and prices; a target that is no whole number."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(40, 200, rows).round(1)
    city = np.repeat(["Rome", "Oslo", "Bern"], [rows - rows // 3 - rows // 6, rows // 3, rows // 6])
    city = rng.permutation(city)
    price = size * np.where(city == "Oslo", 2.0, 1.0) + rng.normal(size=rows)
    return {"size": size.tolist(), "city": city.tolist(), "price": price.tolist()}
