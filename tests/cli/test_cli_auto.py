"""The sampler that tunes itself, from the command line."""

import json
import math

import numpy as np
import pytest

import sundman
from sundman.cli.bnn.plan import BnnSettings, _lengths
from sundman.cli.bnn.plan import make_plan as bnn_plan
from sundman.cli.errors import UserError
from sundman.cli.settings import Request


def results(path):
    return json.loads((path / "results.json").read_text())


def own_data(tmp_path, rows=60, *, classes=False):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3))
    np.save(tmp_path / "x.npy", x)
    y = x[:, 0] + 0.1 * rng.normal(size=rows)
    np.save(tmp_path / "y.npy", (y > 0).astype(int) if classes else y)
    return {"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"}


@pytest.mark.parametrize("classes", [False, True])
def test_it_is_the_default_of_networks(tmp_path, classes):
    files = own_data(tmp_path, classes=classes)
    plan = bnn_plan(Request(in_options=files))
    assert isinstance(plan.sampler, sundman.Auto)
    assert plan.sampler.temperature == 1.0
    assert plan.lengths.chains > 1
    assert plan.keeps_positions
    usual = {"bias": 0.02, "dense_up_to": 64, "first_step": 1.0}
    all_rows = {**usual, "bias": 0.004, "warm_up": 6000}
    assert plan.settings.settings == {"auto": usual if classes else all_rows}
    assert plan.sizes[1:-1] == [50, 50]
    assert plan.lengths.steps // plan.lengths.thin <= (200 if classes else 2_000)


def test_a_small_regression_goes_on_until_its_chains_agree(tmp_path):
    """As long as that takes little time; and not if a length is given."""
    files = {key: str(path) for key, path in own_data(tmp_path).items()}
    small = bnn_plan(Request(in_options=files))
    assert small.until == sundman.until(ess=200, rhat=1.05)
    assert small.settings.until == "ess=200,rhat=1.05"
    assert (small.lengths.burn_in_steps, small.lengths.steps) == (10_000, 300_000)
    given = bnn_plan(Request(in_options={**files, "epochs": 40_000}))
    assert given.until is None
    assert (given.lengths.burn_in_steps, given.lengths.steps) == (10_000, 30_000)
    path = tmp_path / "settings"
    path.mkdir()
    small.settings.write(path)
    again = bnn_plan(Request(BnnSettings.read(path / "settings.toml")))
    assert (again.until, again.lengths) == (small.until, small.lengths)
    larger = bnn_plan(Request(in_options=own_data(tmp_path, 500)))
    assert larger.until is not None
    assert larger.lengths.steps == 7 * 30_000  # 400 rows x 2,801 parameters
    assert bnn_plan(Request(in_options=own_data(tmp_path, 1_500))).until is None


def test_a_rule_may_make_a_network_run_ten_times_as_long(tmp_path):
    """Unless epochs are given; and more draws are kept, as far as they fit."""
    files = own_data(tmp_path, classes=True)
    usual = bnn_plan(Request(in_options=files))
    plan = bnn_plan(Request(in_options={**files, "until": "ess=400,rhat=1.01"}))
    assert plan.until == sundman.until(ess=400, rhat=1.01)
    assert plan.lengths.steps == 10 * usual.lengths.steps
    assert plan.lengths.thin == usual.lengths.thin
    assert plan.lengths.burn_in_steps == usual.lengths.burn_in_steps
    assert plan.keeps_positions
    given = bnn_plan(Request(in_options={**files, "until": "ess=10", "epochs": 100}))
    assert given.lengths.epochs == 100


@pytest.mark.parametrize(
    ("options", "settings", "name"),
    [
        ({}, {"h": 0.01}, None),  # sa-sgld, the sampler then, has no h
        ({}, {"dtau": 0.01}, "sa-sgld"),
        ({"temperature": 0.0}, {}, "sa-sgld"),
        ({"settings": {"sa-sgld": {"r": 0.3}}}, {}, "sa-sgld"),
        ({"sampler": "auto"}, {"bias": 0.01}, "auto"),
        ({"sampler": "AUTO"}, {}, "auto"),
    ],
)
def test_a_setting_of_a_sampler_asks_for_that_sampler(tmp_path, options, settings, name):
    request = Request(in_options={**own_data(tmp_path, classes=True), **options},
                      sampler_settings=settings)  # fmt: skip
    if name is None:
        with pytest.raises(UserError, match="its step is dtau"):
            bnn_plan(request)
        return
    plan = bnn_plan(request)
    assert plan.name == name
    if name != "auto":
        assert plan.lengths.chains == 1
    elif settings:
        assert plan.sampler.bias == 0.01


def test_all_rows_of_a_table_up_to_some_size(tmp_path):
    plan = bnn_plan(Request(in_options=own_data(tmp_path, 15_000)))
    assert plan.lengths.batch == 12_000
    assert plan.sizes == [3, 50, 1]  # two layers of 12,000 rows take too long
    assert plan.lengths.epochs == 2.5e11 // (12_000 * 251)
    larger = bnn_plan(Request(in_options=own_data(tmp_path, 30_000)))
    assert larger.lengths.batch == 24_000 // 16
    assert larger.lengths.burn_in_steps == 0


@pytest.mark.parametrize("rows", [1438, 1797, 2001, 7001])
@pytest.mark.parametrize("tuned_parameters", [5000, None])
def test_the_last_batch_of_an_epoch_is_not_much_shorter(rows, tuned_parameters):
    """A batch of two rows has a gradient so noisy that it would rule the step of all."""
    batch = _lengths(BnnSettings(), 10, rows, tuned_parameters).batch
    batches = math.ceil(rows / batch)
    assert batches * batch - rows < batches
    if tuned_parameters is not None and rows < 2000:
        assert batches == 4


def test_positions_take_bounded_memory(tmp_path):
    files = own_data(tmp_path, classes=True)
    wide = bnn_plan(Request(in_options={**files, "width": 400}))
    draws = wide.lengths.steps // wide.lengths.thin
    size = 4 * 400 + 401 * 400 + 401 * 2
    assert wide.keeps_positions
    assert 50 <= draws < 200
    assert 4 * wide.lengths.chains * draws * size <= 200e6
    wider = bnn_plan(Request(in_options={**files, "width": 2000}))
    assert not wider.keeps_positions
    assert wider.lengths.steps // wider.lengths.thin > 150


def test_bad_settings(here, tmp_path):
    own_data(tmp_path)
    for arguments, part in (
        (["bnn", "digits", "--sampler", "auto", "--step", "0.1"], "auto finds its own step"),
        (["bnn", "digits", "--sampler", "auto", "--set", "bias=2"], "bias is a share"),
        (["bnn", "digits", "--sampler", "aut"], "did you mean auto?"),
        (["bnn", "--x", "x.npy", "--y", "y.npy", "--chains", "0"], "chains must be 1 or more"),
        (["bnn", "digits", "--sampler", "auto", "--temperature", "0"], "temperature must be"),
    ):
        code, _, err = here(*arguments)
        assert code == 2
        assert part in err


@pytest.mark.long
@pytest.mark.usefixtures("blank_figures")
@pytest.mark.parametrize("classes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_network_without_settings(succeeds, tmp_path, classes):
    own_data(tmp_path, classes=classes)
    small = ["--width", "4", "--depth", "1", "--epochs", "400", "--thin", "4", "--batch", "16"]
    out = succeeds("bnn", "--x", "x.npy", "--y", "y.npy", *small, "-o", "net")
    assert "gaussian" in out
    assert "after a warm-up, " in out
    assert "Tuned: BAOAB" in out
    assert "Temperature: " in out
    assert "in the last layer" in out
    assert out.splitlines()[-1].startswith("Verdict: ")
    written = results(tmp_path / "net")
    assert set(written["temperature"]["seed-0"]) == {"mean", "last_layer", "stiffest"}
    assert written["tuning"]["seed-0"].startswith("BAOAB")
    assert written["verdict"]["seed-0"]["status"] in ("good", "bad")
    page = (tmp_path / "net/report.html").read_text()
    assert "How the sampler tuned itself" in page
    assert "in the last layer" in page
    again = succeeds("resume", tmp_path / "net")  # what is finished is only read
    assert results(tmp_path / "net") == written
    assert again.splitlines()[-1] == out.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.usefixtures("blank_figures")
def test_a_run_cut_short_says_so(succeeds, tmp_path):
    own_data(tmp_path)
    arguments = ["--x", "x.npy", "--y", "y.npy", "--width", "4", "--epochs", "30", "-o", "net"]
    last = succeeds("bnn", *arguments).splitlines()[-1]
    assert last.startswith(("Verdict: Unknown: too short to judge", "Verdict: This run should not"))
