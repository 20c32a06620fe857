"""The README's examples run as shown and find the posterior."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def examples(text=README):
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def test_the_examples_run_and_sample_the_posterior(capsys):
    names = {}
    tuned, sampled, looped, _ = examples()
    exec(compile(tuned, "README.md", "exec"), names)
    out = capsys.readouterr().out
    assert "BAOAB with noisy gradients" in out
    assert "No reason was found to distrust this run." in out
    assert "±" in out
    exec(compile(sampled, "README.md", "exec"), names)
    for draws in (names["draws"], names["chosen"]):
        assert not draws.diverged.any()
        # A reference run: kinetic Langevin with the full gradient, 64 chains, errors below 4e-4.
        value, error = names["sundman"].estimate.mean(draws)
        assert np.abs(value - [1.7675, -0.8737]) == pytest.approx(0, abs=5 * error.max() + 0.01)
        spread = np.sqrt(np.diag(names["sundman"].estimate.covariance(draws)))
        assert spread == pytest.approx([0.120, 0.090], rel=0.15)
    exec(compile(looped, "README.md", "exec"), names)
    assert np.abs((names["w"] - value) / spread).max() < 5
    assert names["state"].clock.time == pytest.approx(0.1)  # 1,000 steps of 0.1 / N


def test_the_first_page_runs_as_printed(capsys):
    names = {}
    for block in examples((ROOT / "docs/start.md").read_text(encoding="utf-8")):
        exec(compile(block, "start.md", "exec"), names)
    assert "No reason was found to distrust this run." in capsys.readouterr().out
    mean, predicted = names["mean"], names["predicted"]
    # least squares of these rows; the prior is too wide to matter
    assert abs(mean.value["slope"] - 2506.4) < 5 * mean.error["slope"] + 1.0
    assert predicted.sd == pytest.approx(20_000.0, rel=0.01)
