"""Whatever is wrong is one line on stderr, what is wrong; what to do, and exit code 2."""

import numpy as np
import pytest

SA_SGLD = ("bnn", "digits", "--sampler", "sa-sgld")
BAD = {
    "no such command": (["bn"], "did you mean"),
    "no such option": (["bnn", "digits", "--stepz", "1"], "--step"),
    "no number": (["bnn", "digits", "--alpha", "much"], "--alpha"),
    "no such sampler": (["bnn", "digits", "--sampler", "sgdl"], "did you mean sgld?"),
    "negative step": (
        [*SA_SGLD, "--dtau", "-1"],
        "dtau must be greater than 0",
    ),
    "m > M": ([*SA_SGLD, "--m", "20", "--M", "1"], "m <= psi <= M"),
    "setting of another sampler": (
        ["bnn", "digits", "--sampler", "sgld", "--r", "1"],
        "no setting",
    ),
    "no such data set": (["bnn", "mnits"], "did you mean mnist?"),
    "missing data": (["bnn", "mnist"], "--data DIR"),
    "no such run": (["diagnose", "nowhere"], "nothing at nowhere"),
    "not a run": (["resume", "."], "not a run"),
    "no such work": (["cite", "adam"], "there is no sampler"),
    "output is a file": (["bnn", "digits", "--output", "/dev/null/x"], "another --output"),
}


def check(code, out, err, part):
    assert code == 2, err
    assert out == ""
    assert err.startswith("sundman: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "; " in err
    assert part in err
    assert "Traceback" not in out + err


@pytest.mark.long
def test_a_bad_command_in_a_process(shell, tmp_path):
    done = shell("bn", cwd=tmp_path)
    check(done.returncode, done.stdout, done.stderr, "did you mean")


@pytest.mark.parametrize(("arguments", "part"), BAD.values(), ids=BAD.keys())
def test_bad_commands_are_told_in_one_line(here, arguments, part):
    check(*here(*arguments), part)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["bnn", "digits", "--until", "400"], "KEY=VALUE; write it as --until"),
        (["bnn", "digits", "--until", "es=400"], "did you mean ess?"),
        (["bnn", "digits", "--until", "rhat=1"], "rhat must be above 1"),
        (["bnn", "digits", "--until", "ess=many"], "ess must be a number"),
        (["bnn", "digits", "--until", "ess=1e9"], "ess=1e+09 cannot be reached"),
        (["bnn", "digits", "--until", "seconds=-1"], "seconds must be greater than 0"),
        (["bnn", "digits", "--set", "r"], "KEY=VALUE"),
        (["bnn", "digits", "--set", "temperature=2"], "--temperature"),
        ([*SA_SGLD, "--set", "lag=late"], "lag must be one of"),
        ([*SA_SGLD, "--h", "1e-4"], "use --dtau"),
        (["bnn", "digits", "--sampler", "sgld", "--dtau", "1e-4"], "use --h"),
        (["bnn", "digits", "--temperature", "-1"], "temperature must be"),
        (["bnn", "digits", "--chains", "0"], "chains must be 1 or more"),
        (["bnn", "digits", "--seed", "-3"], "seed must be 0 or more"),
        (["bnn", "digits", "--config", "nowhere.toml"], "there is no file"),
        (["bnn"], "no data are given"),
        (["bnn", "digits", "--csv", "a.csv"], "given twice"),
        (["bnn", "digits", "--prior", "horsehoe"], "did you mean horseshoe?"),
        (["bnn", "digits", "--batch", "99999"], "training rows"),
        (["bnn", "digits", "--epochs", "2", "--burn-in-epochs", "2"], "leaves nothing"),
        (["bnn", "digits", "--dtau", "-0.1"], "dtau must be greater than 0"),
        (["bnn", "digits", "--thin", "100", "--epochs", "2"], "thin=100"),
        (["bnn", "digits", "--width", "0"], "width must be 1 or more"),
        (["bnn", "uci/yacht", "--split", "20"], "split must be one of 0 to 19"),
        (["bnn", "--x", "x.npy"], "--y"),
        (["bnn", "--x", "x.npy", "--y", "y.npy"], "there is no file"),
        (["bnn", "--csv", "no.csv", "--target", "y"], "there is no file"),
        (["demo", "--seed", "-1"], "seed must be 0 or more"),
        (["report", "nowhere"], "nothing at nowhere"),
    ],
)
def test_bad_settings(here, arguments, part):
    check(*here(*arguments), part)


def test_a_download_without_a_network(here, monkeypatch):
    def unreachable(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    code, out, err = here("bnn", "uci/yacht", "--download")
    *downloads, wrong = err.splitlines(keepends=True)
    assert all(line.startswith("sundman: downloading ") for line in downloads)
    check(code, out, wrong, "could not be downloaded")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("epochs = ", "is not TOML"),
        ("epoch = 10", "did you mean epochs?"),
        ('epochs = "many"', "epochs must be a whole number"),
        ('command = "toy"', "is for sundman toy"),
        ("settings = 3", "write it as [settings]"),
        ("[settings.sgdl]\nh = 1.0", "did you mean sgld?"),
        ("[settings.sa-sgld]\nh = 1.0", "use --dtau"),
    ],
)
def test_bad_settings_file(here, tmp_path, text, part):
    (tmp_path / "bad.toml").write_text(text)
    check(*here("bnn", "digits", "--config", "bad.toml"), part)


def test_settings_that_are_not_text(here, tmp_path):
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    check(*here("bnn", "digits", "--config", "bad.toml"), "cannot be read")


def test_existing_results_are_kept(here, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "report.html").write_text("old")
    check(*here("bnn", "digits", "--output", "old"), "--force")
    (tmp_path / "old" / "thesis.tex").write_text("mine")
    check(*here("bnn", "digits", "--output", "old", "--force"), "not results of sundman")
    assert (tmp_path / "old" / "report.html").read_text() == "old"


GOOD_X = np.arange(24.0).reshape(12, 2)


@pytest.mark.parametrize(
    ("x", "y", "part"),
    [
        (GOOD_X, np.arange(11), "as many rows"),
        (np.where(GOOD_X == 4, np.nan, GOOD_X), np.arange(12) % 2, "the first is row 2"),
        (GOOD_X, np.full(12, np.inf), "y has 12 rows"),
        (GOOD_X.astype(str), np.arange(12) % 2, "must hold numbers"),
        (GOOD_X, np.zeros((12, 2)), "one number or name per row"),
        (GOOD_X, np.zeros(12, int), "one class only"),
        (GOOD_X[:2], np.array([0, 1]), "give more rows"),
    ],
)
def test_bad_arrays(here, tmp_path, x, y, part):
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    check(*here("bnn", "--x", "x.npy", "--y", "y.npy"), part)


def test_a_file_that_is_no_array(here, tmp_path):
    (tmp_path / "x.npy").write_text("1 2 3")
    check(*here("bnn", "--x", "x.npy", "--y", "x.npy"), "not a NumPy file")


@pytest.mark.parametrize(
    ("text", "target", "part"),
    [
        ("a,b,y\n1,red,0\n2,blue,1\n", "y", "give more rows"),
        ("a,b,y\n1,2\n", "y", "line 2"),
        ("a,b,price\n1,2,3.5\n", "prize", "did you mean price?"),
        ("a,b,y\n", "y", "no rows"),
        ("a,y\n1,\n2,\n", "y", "is empty"),
        ("y\n1\n2\n", "y", "needs features"),
        ("a,y\n" + "".join(f"{i},{i}\n" for i in range(50)), "y", "--task"),
    ],
)
def test_bad_tables(here, tmp_path, text, target, part):
    (tmp_path / "t.csv").write_text(text)
    check(*here("bnn", "--csv", "t.csv", "--target", target), part)
    check(*here("bnn", "--csv", "t.csv"), "" if "no rows" in part else ";")
