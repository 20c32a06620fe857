"""The examples run, and the digits network does what it is there to show."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_ensemble_beats_the_map_network():
    found = load("digits").main(steps=12_000)
    ensemble, single = found["SA-SGLD ensemble"], found["MAP network"]
    assert ensemble["accuracy"] >= 0.97
    assert ensemble["NLL"] < single["NLL"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_jax", "mnist_nnx", "mnist_equinox"])
def test_network_examples_run(name):
    script = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, script, "--quick"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("accuracy")[1].split()[0])
    assert accuracy > 0.95
