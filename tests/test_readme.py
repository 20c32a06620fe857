"""The README's example runs as shown and finds the posterior."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def examples():
    return re.findall(r"^```python\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_there_is_one_example():
    assert len(examples()) == 1


def test_the_example_runs_and_samples_the_posterior(capsys):
    names = {}
    exec(compile(examples()[0], "README.md", "exec"), names)
    draws = names["draws"]
    assert (draws.diverged == -1).all()
    # A reference run: kinetic Langevin with the full gradient, 64 chains, errors below 4e-4.
    value, error = names["sundman"].estimate.mean(draws)
    assert np.abs(value - [1.7675, -0.8737]) == pytest.approx(0, abs=5 * error.max() + 0.01)
    spread = np.sqrt(np.diag(names["sundman"].estimate.covariance(draws)))
    assert spread == pytest.approx([0.120, 0.090], rel=0.15)
    assert "±" in capsys.readouterr().out


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_to_files(path):
    assert (ROOT / path).is_file()
