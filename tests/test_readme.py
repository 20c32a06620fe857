"""The README's examples run as shown and find the posterior."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from docs import pages

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def examples(text=README):
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.long
def test_the_examples_run_and_sample_the_posterior(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    tuned, stored, looped = examples()
    exec(compile(tuned, "README.md", "exec"), names)
    out = capsys.readouterr().out
    assert "BAOAB with exact gradients" in out
    assert "No reason was found to distrust this run." in out
    assert "±" in out
    exec(compile(stored, "README.md", "exec"), names)
    for draws in (names["draws"], names["stored"]):
        assert not draws.diverged.any()
        # A reference run: kinetic Langevin with the full gradient, 64 chains, errors below 4e-4.
        value, error = names["sundman"].estimate.mean(draws)
        assert np.abs(value - [1.7675, -0.8737]) == pytest.approx(0, abs=5 * error.max() + 0.01)
        spread = np.sqrt(np.diag(names["sundman"].estimate.covariance(draws)))
        assert spread == pytest.approx([0.120, 0.090], rel=0.15)
    exec(compile(looped, "README.md", "exec"), names)
    updates, _ = names["sampler"].update(np.zeros(2), names["state"], np.zeros(2))
    assert np.isfinite(updates).all()


def test_it_is_read_in_a_minute():
    assert len(README.split()) <= 900


def test_absolute_links_lead_to_files():
    """They work on the page of a package, and here to what they mean."""
    found = re.findall(
        r"https://github.com/sundman-project/sundman/(?:blob|raw)/main/([^)#]+)", README
    )
    assert len(found) > 20
    for path in found:
        assert (ROOT / path).is_file(), path


@pytest.mark.slow
def test_the_first_page_runs_as_printed(capsys):
    names = {}
    for block in examples((ROOT / "docs/start.md").read_text(encoding="utf-8")):
        exec(compile(block, "start.md", "exec"), names)
    assert "No reason was found to distrust this run." in capsys.readouterr().out
    mean, predicted = names["mean"], names["predicted"]
    # least squares of these rows; the prior is too wide to matter
    assert abs(mean.value["slope"] - 2506.4) < 5 * mean.error["slope"] + 1.0
    assert predicted.sd == pytest.approx(20_000.0, rel=0.01)


def commands(name):
    """What the shell blocks of a page tell a new user to type, the installation aside."""
    found = []
    for block in pages.blocks((ROOT / name).read_text(encoding="utf-8")):
        if block.language == "bash":
            found += [line for line in block.code.splitlines() if not line.startswith("pip ")]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("command", [*commands("README.md"), *commands("docs/start.md")])
def test_commands_work_as_printed(command, tmp_path):
    rng = np.random.default_rng(0)
    area, city = rng.normal(80.0, 20.0, 200), rng.choice(["Rome", "Bern"], 200)
    price = 2_500.0 * area + 50_000.0 * (city == "Bern") + rng.normal(0.0, 1e4, 200)
    rows = [f"{a:.1f},{c},{p:.0f}" for a, c, p in zip(area, city, price, strict=True)]
    (tmp_path / "houses.csv").write_text("\n".join(["area,city,price", *rows]))
    done = subprocess.run(
        [sys.executable, "-m", "sundman.cli", *shlex.split(command, comments=True)[1:]],
        cwd=tmp_path,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^(Verdict|Report): ", done.stdout, flags=re.MULTILINE), done.stdout
