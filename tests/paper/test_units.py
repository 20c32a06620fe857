"""Units of work are not done twice."""

import json
import math
import time

import pytest

from sundman.paper.units import Bench, digest, plain


def test_a_unit_is_done_once(tmp_path):
    bench, calls = Bench(tmp_path, "test"), []

    def work():
        calls.append(1)
        return {"value": 1.5, "pair": (1, 2)}

    first = bench.unit("star/a", {"h": 0.1}, work)
    assert first == {"value": 1.5, "pair": [1, 2]}
    assert bench.unit("star/a", {"h": 0.1}, work) == first
    assert len(calls) == 1
    bench.unit("star/a", {"h": 0.2}, work)  # other settings: done again
    assert len(calls) == 2


def test_the_time_of_a_unit_is_remembered(tmp_path):
    bench = Bench(tmp_path, "test")
    bench.unit("a", {}, lambda: time.sleep(0.05) or {})
    assert bench.before == {"a": 0.0}
    later = Bench(tmp_path, "test")
    later.unit("a", {}, dict)
    assert later.before["a"] >= 0.05


def test_an_interrupted_unit_leaves_nothing(tmp_path):
    bench = Bench(tmp_path, "test")

    def broken():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.unit("star/a", {}, broken)
    assert bench.known("star/a", {}) is None
    bench.path("star/b").parent.mkdir(parents=True, exist_ok=True)
    bench.path("star/b").write_text("{half a fi")
    assert bench.known("star/b", {}) is None


def test_a_reading_bench_makes_nothing(tmp_path):
    assert Bench(tmp_path, "test", make=False).unit("a", {}, lambda: {"x": 1}) is None


def test_plain_is_strict_json():
    value = plain({"a": (1, math.inf), 2: {"b": math.nan}})
    assert value == {"a": [1, None], "2": {"b": None}}
    json.dumps(value, allow_nan=False)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
