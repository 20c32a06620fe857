"""Real tables: what is decided about each column, and what is refused, in one sentence."""

import json
import time

import numpy as np
import pytest

from sundman.cli.bnn.data import DataSettings, load
from sundman.cli.bnn.preprocessing import Preprocessing, read_preprocessing
from sundman.cli.bnn.table import levels, looks_like_date, numbers, read_table
from sundman.cli.errors import UserError
from sundman.cli.settings import read_settings, write_settings
from tests.cli.tables import ROWS, houses, write_table


@pytest.fixture
def loads(tmp_path):
    """Load columns as a table whose target is the price, unless the settings say another."""

    def load_table(table, delimiter=",", /, **settings):
        path = write_table(tmp_path / "t.csv", table, delimiter)
        return load(DataSettings(**{"csv": str(path), "target": "price", **settings}))

    return load_table


def features(loaded):
    return loaded.preprocessing.features()


def said(loaded, part):
    """The one decision that begins so."""
    (sentence,) = (each for each in loaded.decisions if each.startswith(part))
    return sentence


def test_names_become_features_of_their_levels(loads):
    loaded = loads(houses())
    assert features(loaded) == ["size", "city=Rome", "city=Oslo", "city=Bern"]
    assert said(loaded, "Names made 0/1 features") == (
        "Names made 0/1 features: 'city' (3 levels)."
    )
    assert loaded.decisions[-1] == "4 features of 2 columns, standardised by the training rows."
    x = loaded.data.train.x
    assert x.dtype == np.float32
    assert x.mean(axis=0) == pytest.approx(0.0, abs=1e-5)
    assert x[:, 0].std() == pytest.approx(1.0, rel=1e-5)
    one_hot = x[:, 1:] * 0.5 + loaded.data.x_mean[1:]
    assert one_hot.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    cities = np.array(houses()["city"])[loaded.split.train]
    assert np.array(["Rome", "Oslo", "Bern"])[one_hot.argmax(axis=1)].tolist() == cities.tolist()


def test_rare_levels_are_one_feature(loads):
    table = houses()
    table["city"][:3] = ["Graz", "Lyon", "Nice"]
    loaded = loads(table)
    assert features(loaded)[-1] == "city: other"
    assert "the others as one" in said(loaded, "Names made")


def test_the_number_of_levels_is_bounded(loads):
    table = houses(600)
    table["street"] = [f"street {i % 40}" for i in range(600)]
    loaded = loads(table)
    assert sum(name.startswith("street=") for name in features(loaded)) == 20
    assert "'street' (20 of 40 levels, the others as one)" in said(loaded, "Names made")


def test_gaps_are_filled_by_training_rows_and_have_a_feature(loads):
    table = houses()
    split = loads(table).split
    for row in split.train[:4]:
        table["size"][row] = "NA"
    table["city"][split.train[5]] = ""
    for row in split.test:  # what is held out must not be seen
        table["size"][row] = 1e9
    loaded = loads(table)
    known = [table["size"][row] for row in split.train[4:]]
    size, city = loaded.preprocessing.columns
    assert size.fill == pytest.approx(np.median(known))
    assert city.fill == "Rome"
    assert features(loaded)[:2] == ["size", "size is missing"]
    assert features(loaded)[-1] == "city is missing"
    sentence = said(loaded, "Gaps filled, with a feature that says where: 'size' by its median")
    assert sentence.endswith("(4 gaps), 'city' by its most common level Rome (1 gap).")
    is_missing = loaded.data.train.x[:, 1] * 0.5 + loaded.data.x_mean[1]
    assert is_missing[:5] == pytest.approx([1, 1, 1, 1, 0], abs=1e-6)
    assert np.isfinite(loaded.data.test.x).all()


def test_gaps_only_among_test_rows_need_no_feature(loads):
    table = houses()
    table["size"][loads(table).split.test[0]] = ""
    assert "size is missing" not in features(loads(table))


def test_columns_that_say_nothing_are_named_and_left_out(loads):
    table = {"": range(ROWS), "CustomerID": range(7000, 7000 + 3 * ROWS, 3), **houses()}
    table |= {"country": ["X"] * ROWS, "tax": [3] * ROWS, "nothing": [""] * ROWS}
    table["note"] = [f"note {i}" for i in range(ROWS)]
    table["pool"] = ["yes" if i % 3 else "" for i in range(ROWS)]
    loaded = loads(table)
    assert features(loaded)[0] == "size"
    assert features(loaded)[-1] == "pool is missing"
    assert said(loaded, "Left out, the same in all") == (
        "Left out, the same in all training rows: 'country' (X), 'tax' (3)."
    )
    assert said(loaded, "Left out, empty").endswith(": 'nothing'.")
    assert said(loaded, "Left out, a name or number of the row").endswith(
        "'column 1', 'CustomerID', 'note' (48 different ones in 48 training rows)."
    )
    assert "'pool' (" in said(loaded, "Gaps filled")
    kept = loads(table, columns=["CustomerID", "size"])
    assert features(kept) == ["CustomerID", "size"]


def test_whole_numbers_that_all_differ_are_no_ids(loads):
    table = houses()
    table["year"] = list(range(1950, 1950 + ROWS))
    table["income"] = [20_000 + 37 * i * i for i in range(ROWS)]
    assert features(loads(table))[-2:] == ["year", "income"]


@pytest.mark.parametrize(
    "settings",
    [{"columns": ["size,age"]}, {"columns": ["age", "size", "price"]}, {"drop": ["city", "a, b"]}],
)
def test_columns_and_drop(loads, settings):
    table = {**houses(), "age": np.arange(ROWS) % 7, "a, b": np.arange(ROWS) % 5}
    loaded = loads(table, **settings)
    assert features(loaded) == ["size", "age"]
    assert said(loaded, "Left out, as asked") == "Left out, as asked: 'city', 'a, b'."


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(loads, delimiter):
    loaded = loads(houses(), delimiter)
    name = {";": "semicolons", "\t": "tabs"}[delimiter]
    assert said(loaded, "Cells are") == f"Cells are separated by {name}."
    assert (loaded.data.train.x == loads(houses()).data.train.x).all()


def test_semicolons_allow_decimal_commas(loads):
    table = houses()
    with_points = loads(table)
    for name in ("size", "price"):
        table[name] = [str(value).replace(".", ",") for value in table[name]]
    loaded = loads(table, ";")
    assert (loaded.data.train.x == with_points.data.train.x).all()
    assert loaded.data.y_mean == pytest.approx(with_points.data.y_mean)


def test_quotes_blank_lines_and_a_mark_of_unicode(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffa;"b;c"\n\n1;"x\ny"\n2; z \n'.encode())
    table = read_table(path)
    assert table.columns == {"a": ("1", "2"), "b;c": ("x\ny", " z ")}
    assert table.lines.tolist() == [4, 5]
    assert levels(table.columns["b;c"]).names == ["x\ny", "z"]


def test_cells_as_numbers_and_names():
    values, texts = numbers(["1", " 2.5 ", "", "n/a", "x", "3,5"])
    assert values[:2].tolist() == [1.0, 2.5]
    assert np.isnan(values[2:]).all()
    assert texts.tolist() == [4, 5]
    assert numbers(["3,5", "1"], decimal_comma=True).values.tolist() == [3.5, 1.0]
    names, codes = levels(["b", "", "a ", "b", "NULL", "a"])
    assert (names, codes.tolist()) == (["b", "a"], [0, -1, 1, 0, -1, 1])


@pytest.mark.parametrize(
    ("cell", "is_date"),
    [
        ("2024-05-31", True),
        ("2024-05-31T12:00:00Z", True),
        ("31.5.2024", True),
        ("5/31/24 12:30", True),
        ("31 May 2024", True),
        ("May 31, 2024", True),
        ("Fri, 31 May 2024", True),
        ("May 31 2024", True),
        ("Sept. 2024", True),
        ("2024-05", True),
        ("05/2024", True),
        ("2024-05-31+02:00", True),
        ("12:30", True),
        ("1:30:00 AM", True),
        ("2024-13", False),
        ("10-2050", True),
        ("Mayfair 2024 b", False),
        ("3.5", False),
        ("1-2", False),
        ("Baker Street 221", False),
    ],
)
def test_dates_are_known(cell, is_date):
    assert looks_like_date(cell) == is_date


def test_rows_without_a_target_are_left_out(loads):
    table = houses()
    table["price"][3] = ""
    table["price"][7] = "NA"
    loaded = loads(table)
    assert "2 rows have no target: left out." in loaded.decisions
    rows = np.concatenate(loaded.split)
    assert sorted(rows) == [i for i in range(ROWS) if i not in (3, 7)]
    targets = loaded.data.test.y * loaded.data.y_scale + loaded.data.y_mean
    assert targets == pytest.approx([table["price"][i] for i in loaded.split.test], rel=1e-5)


def classes(counts):
    return [name for name, count in counts.items() for _ in range(count)]


def test_each_class_has_test_rows(loads):
    table = houses()
    table["kind"] = classes({"a": 50, "b": 6, "c": 4})
    for split in range(5):
        loaded = loads(table, target="kind", split=split)
        held_out = np.bincount(loaded.data.test.y, minlength=3)
        assert held_out.tolist() == [10, 2, 2]
        assert loaded.target.classes == ("a", "b", "c")
    assert "at random in each class" in loaded.decisions[1]


def test_a_class_of_few_rows_is_only_trained_on(loads):
    table = houses()
    table["kind"] = classes({"a": 40, "b": 17, "c": 3})
    loaded = loads(table, target="kind")
    assert 2 not in loaded.data.test.y
    assert (loaded.data.train.y == 2).sum() == 3
    assert said(loaded, "Only trained on") == (
        "Only trained on, not tested, because they have fewer than 4 rows: c (3)."
    )


def test_few_whole_numbers_are_classes_also_with_a_point(loads):
    table = houses()
    table["stars"] = [f"{i % 5}.0" for i in range(ROWS)]
    loaded = loads(table, target="stars")
    assert loaded.decisions[0].startswith(
        "Classification, because the targets are 5 different whole numbers"
    )
    assert loads(table, target="stars", task="regression").data.classes is None


def test_many_whole_numbers_are_asked_about(loads):
    table = houses(3000)
    table["price"] = [round(price) % 110 for price in table["price"]]
    with pytest.raises(UserError, match=r"110 different whole numbers; say --task regression if"):
        loads(table)
    assert loads(table, task="regression").data.classes is None
    assert loads(table, task="classification").data.classes == 110


BAD = {
    "dates": ({"sold": ["2024-01-02"] * ROWS, "at": ["12:30"] * ROWS}, {}, "--drop sold,at"),
    "a few words": (
        {"size": ["12"] * (ROWS - 1) + ["big"]},
        {},
        "text, the first in line 61: 'big'",
    ),
    "infinite": ({"size": [*range(ROWS - 1), "inf"]}, {}, "not a number in line 61: 'inf'"),
    "no feature": ({"size": [1] * ROWS, "city": ["X"] * ROWS}, {}, "no column left to learn from"),
    "unknown --columns": ({}, {"columns": ["sice"]}, "(--columns); did you mean size?"),
    "unknown --drop": ({}, {"drop": ["town"]}, "(--drop); use one of size, city, price"),
    "target dropped": ({}, {"drop": ["price"]}, "--drop has the target 'price'"),
    "both": ({}, {"drop": ["city"], "columns": ["city"]}, "in --columns and in --drop"),
    "all dropped": ({}, {"drop": ["city,size"]}, "needs features"),
    "a number as columns": ({}, {"columns": 3}, 'write it as ["a", "b"]'),
    "dates as target": ({"price": ["2024-01-02"] * ROWS}, {}, "the target 'price' of"),
    "words in target": (
        {"price": ["1.5"] * (ROWS - 1) + ["sold"]},
        {},
        "'sold'; write a number or",
    ),
    "infinite target": ({"price": ["1.5"] * (ROWS - 1) + ["inf"]}, {}, "is infinite in line 61"),
    "empty target": ({"price": [""] * ROWS}, {}, "name another --target"),
    "names as target": (
        {"price": [f"n{i}" for i in range(ROWS)]},
        {},
        "fewer than 4; name another",
    ),
    "text regressed": ({}, {"target": "city", "task": "regression"}, "--task classification"),
    "bad share": ({}, {"test_fraction": 2.0}, "between 0 and 1"),
}


@pytest.mark.parametrize(("columns", "settings", "part"), BAD.values(), ids=BAD.keys())
def test_bad_tables_are_told_in_one_sentence(loads, columns, settings, part):
    with pytest.raises(UserError) as error:
        loads({**houses(), **columns}, **settings)
    message = str(error.value)
    assert part in message
    assert "\n" not in message
    assert "; " in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a,a,y\n1,2,3\n", "the column 'a' twice"),
        ("1,2,3\n4,5,6\n", "numbers only in its first line"),
        ("a,y\n1,2\n\n1,2,3\n", "3 cells in line 4"),
        ("", "no rows"),
    ],
)
def test_bad_files(tmp_path, text, part):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UserError, match=part):
        read_table(tmp_path / "t.csv")


def test_columns_of_arrays_are_refused(tmp_path):
    with pytest.raises(UserError, match="give one as --csv"):
        load(DataSettings(x="x.npy", y="y.npy", drop=["a"]))


def test_columns_survive_the_settings_file(tmp_path):
    write_settings(tmp_path / "s.toml", "bnn", {"drop": ["a, b", "c"], "columns": None})
    assert read_settings(tmp_path / "s.toml", "bnn", ("drop",)) == {"drop": ["a, b", "c"]}


def test_preprocessing_survives_its_file(loads, tmp_path):
    table = houses()
    table["size"][0] = table["city"][1] = ""
    loaded = loads(table)
    loaded.preprocessing.write(tmp_path, loaded.target)
    again = read_preprocessing(tmp_path)
    assert again == (loaded.preprocessing, loaded.target)
    assert json.loads((tmp_path / "preprocessing.json").read_text())["features"] == features(loaded)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('{"format": 2}', "format 2"),
        ("{", "is damaged"),
        ('{"format": 1, "target": {}}', "is damaged"),
        (None, "give the --output of a finished sundman bnn --csv"),
    ],
)
def test_bad_preprocessing(tmp_path, text, part):
    if text is not None:
        (tmp_path / "preprocessing.json").write_text(text)
    with pytest.raises(UserError, match=part):
        read_preprocessing(tmp_path)


def test_new_rows_with_unknown_levels_and_gaps(loads, tmp_path):
    table = houses()
    loaded = loads(table)
    new = {"city": ["Paris", "", "Oslo"], "more": [1, 2, 3], "size": ["", "100", "50"]}
    x, unknown = loaded.preprocessing.apply(read_table(write_table(tmp_path / "n.csv", new)))
    assert unknown == {"city": 1}
    assert x.shape == (3, 4)
    raw = x * loaded.data.x_scale + loaded.data.x_mean
    assert raw[:, 1:] == pytest.approx(np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0]]), abs=1e-5)
    assert raw[0, 0] == pytest.approx(loaded.preprocessing.columns[0].fill, rel=1e-5)
    table["city"][:3] = ["Graz", "Lyon", "Nice"]
    with_other: Preprocessing = loads(table).preprocessing
    x = with_other.apply(read_table(tmp_path / "n.csv")).x
    assert with_other.features()[int(np.argmax(x[0, 1:])) + 1] == "city: other"


def test_new_rows_that_lack_columns(loads, tmp_path):
    preprocessing = loads(houses()).preprocessing
    path = write_table(tmp_path / "n.csv", {"a": [1]})
    with pytest.raises(UserError, match="no column 'size' and no column 'city'; the run was"):
        preprocessing.apply(read_table(path))
    path = write_table(tmp_path / "n.csv", {"size": [1, "x"], "city": ["Rome", "Rome"]})
    with pytest.raises(UserError, match=r"column 'size' of .* is not a number in line 3: 'x'; "):
        preprocessing.apply(read_table(path))


@pytest.mark.slow
def test_half_a_million_rows(loads):
    rows = 500_000
    table = houses(rows)
    table["street"] = [f"street {i % 300}" for i in range(rows)]
    table["size"][::11] = [""] * len(table["size"][::11])
    for i in range(5):
        table[f"more {i}"] = np.random.default_rng(i).normal(size=rows).round(4)
    began = time.process_time()
    loaded = loads(table)
    assert time.process_time() - began < 60
    assert len(loaded.data.test.y) == 20_000
    assert loaded.data.train.x.shape == (480_000, 31)
