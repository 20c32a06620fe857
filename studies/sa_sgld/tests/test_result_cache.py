"""Runs are not done twice."""

import json
import math
import time

import pytest

from studies.sa_sgld.experiment import ResultCache, digest, to_json


def test_a_run_is_done_once(tmp_path):
    cache, calls = ResultCache(tmp_path, "test"), []

    def work():
        calls.append(1)
        return {"value": 1.5, "pair": (1, 2)}

    first = cache.get_or_run("star/a", {"h": 0.1}, work)
    assert first == {"value": 1.5, "pair": [1, 2]}
    assert cache.get_or_run("star/a", {"h": 0.1}, work) == first
    assert len(calls) == 1
    cache.get_or_run("star/a", {"h": 0.2}, work)  # other settings: done again
    assert len(calls) == 2


def test_the_time_of_a_run_is_remembered(tmp_path):
    cache = ResultCache(tmp_path, "test")
    cache.get_or_run("a", {}, lambda: time.sleep(0.05) or {})
    assert cache.earlier_seconds == {"a": 0.0}
    later = ResultCache(tmp_path, "test")
    later.get_or_run("a", {}, dict)
    assert later.earlier_seconds["a"] >= 0.05


def test_an_interrupted_run_leaves_nothing(tmp_path):
    cache = ResultCache(tmp_path, "test")

    def broken():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.get_or_run("star/a", {}, broken)
    assert cache.get("star/a", {}) is None
    cache.path("star/b").parent.mkdir(parents=True, exist_ok=True)
    cache.path("star/b").write_text("{half a fi")
    assert cache.get("star/b", {}) is None


def test_reading_makes_nothing(tmp_path):
    assert ResultCache(tmp_path, "test").get("a", {}) is None
    assert not list(tmp_path.iterdir())


def test_to_json_is_strict_json():
    value = to_json({"a": (1, math.inf), 2: {"b": math.nan}})
    assert value == {"a": [1, None], "2": {"b": None}}
    json.dumps(value, allow_nan=False)
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})
