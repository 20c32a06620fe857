import math
from pathlib import Path

import jax
import numpy as np
import pytest

from sundman.report.model import duration, flat, shown
from sundman.report.page import numeric


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "not set"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (math.nan, "not a number"),
        (-math.inf, "-infinity"),
        (1e-08, "1e-08"),
        (np.float32(0.5), "0.5"),
        (20260101, "20260101"),
        ("", "empty"),
        ([], "empty"),
        ([1, None, math.inf], "1, not set, infinity"),
        ([-1] * 64, "-1, 64 times"),
        (range(10), "0, 1, 2, 3, 4, 5, 6, 7, … (10 in all)"),
        (np.arange(3), "0, 1, 2"),
        (np.zeros((4, 400), np.float32), "array of 4 by 400, float32"),
        (Path("runs/a"), "runs/a"),
        (math.hypot, "math.hypot"),
        (object(), "<object object>"),
        ("a" * 500, "a" * 400 + "…"),
    ],
)
def test_values_as_text(value, text):
    assert shown(value) == text


def test_a_random_key_is_shown():
    assert shown(jax.random.key(0))


def test_mappings_inside_are_named_by_their_path():
    nested = {"a": {"b": {"c": 1}, "d": 2}, "e": {}}
    assert list(flat(nested)) == [("a.b.c", 1), ("a.d", 2), ("e", {})]


@pytest.mark.parametrize(
    "seconds, text",
    [(0.05, "0.05 s"), (1.78, "1.8 s"), (42.4, "42 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    "cells, wanted",
    [
        (["1", "2.5", "-3e-4", "1,000", "+2%"], True),
        (["1.2 ± 0.1", "nan", "–", ""], True),
        (["-18.6%", "12 ms"], True),
        (["1", "two"], False),
        (["2 chains"], False),
        (["", "–"], False),
        (["0.2014\n-22.0 ± 0.8 %", "0.258"], True),
        (["0.2014\nof all"], False),
    ],
)
def test_columns_of_numbers(cells, wanted):
    assert numeric(cells) is wanted
