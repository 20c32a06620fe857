"""Opening a run runs no code; resuming it imports functions by name, or says what to give again."""

import ast
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, integrators
from sundman.cli import run as sundman_command
from sundman.integrators import _directions
from sundman.run.inputs import as_gradient
from sundman.store.encoding import Decoder, Encoder
from sundman.store.files import StoreError, StoreWarning
from sundman.store.structure import structure_from_json, structure_to_json
from sundman.tune import saved
from sundman.tune.warm_up import begin
from tests.store.runs import assert_same, bowl, broken_off, run, whole

ROOT = Path(sundman.__file__).parent
_NOBODY = 65534


def test_no_module_imports_pickle():
    """Not the ones that open a run, and no others either."""
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in getattr(node, "names", ())]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not {"pickle", "cloudpickle", "dill", "marshal"} & {*names}, file


@pytest.mark.long
def test_nothing_is_unpickled_to_open_diagnose_report_or_resume(finished, part, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a pickle was loaded")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    draws = sundman.Draws.open(finished)
    np.asarray(draws.values), draws.weight, dict(draws.stats), draws.last, draws.online
    sundman.diagnose(draws, show=False)
    sundman.report.of_run(finished)
    sundman.resume(part)
    assert not any(file.suffix in (".pkl", ".pickle") for file in finished.rglob("*"))


LOOK = """
import sys
sys.path.insert(0, sys.argv[2])
import jax
of_jax = {*sys.modules}  # which imports cloudpickle where it is installed
import sundman
from sundman.cli import run
draws = sundman.Draws.open(sys.argv[1])
draws.values[:], draws.weight, draws.last, draws.online
assert run(["diagnose", sys.argv[1], "--no-cache"]) == 0
assert run(["report", sys.argv[1], "--no-cache"]) == 0
assert run(["runs", sys.argv[1]]) == 0
assert run(["watch", sys.argv[1], "--once"]) == 0
assert not {"theirs", "cloudpickle", "dill"} & ({*sys.modules} - of_jax)
print("values:", type(draws.values).__name__, draws.values)
"""
THEIRS = """
from typing import NamedTuple
import jax.numpy as jnp

class Pair(NamedTuple):
    a: object
    b: object

def potential(pair):
    return 0.5 * (jnp.sum(pair.a**2) + jnp.sum(pair.b**2))
"""


@pytest.mark.slow
def test_a_strangers_run_is_opened_without_their_module(tmp_path, monkeypatch):
    """Their module is importable and would say so."""
    (tmp_path / "theirs.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    import theirs  # pyright: ignore

    init = theirs.Pair(jnp.ones(2), jnp.ones(1))
    run(tmp_path / "run", target=theirs.potential, init=init, online=None)
    (tmp_path / "theirs.py").write_text("raise SystemExit('their code was run')")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK, tmp_path / "run", tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "values: Pair Pair(a=LazyArray(shape=(2, 30, 2)" in done.stdout


class Pair(NamedTuple):
    a: object
    b: object


def trees():
    linear = equinox.nn.Linear(2, 3, key=jax.random.key(0))
    return [
        jnp.ones(2),
        {"a": [1, (2, None)], "b": {3: 4}},
        Pair(1, {"z": (2, [])}),
        sundman.Position({"w": 1}, {"h": 2}),
        (),
        None,
        linear,
    ]


@pytest.mark.parametrize("number", range(7))
def test_the_structure_of_a_pytree_as_json(number):
    tree = trees()[number]
    leaves = jax.tree.leaves(tree)
    again = structure_from_json(structure_to_json(tree), leaves)
    assert jax.tree.leaves(again) == leaves or all(
        map(np.array_equal, jax.tree.leaves(again), leaves)
    )
    paths = [
        [jax.tree_util.keystr(path, simple=True) for path, _ in jax.tree.leaves_with_path(each)]
        for each in (tree, again)
    ]
    assert paths[0] == paths[1]
    if number < 6:
        assert jax.tree.structure(again) == jax.tree.structure(tree)
    else:  # its fields are more than data: leaves by name, in the order of the class
        assert again.weight.shape == (3, 2)
        real = jax.tree.unflatten(jax.tree.structure(tree), jax.tree.leaves(again))
        assert isinstance(real, equinox.nn.Linear)


def test_a_class_of_an_unknown_module_is_not_imported():
    hostile = {"namedtuple": "antigravity:Pair", "names": ["a"], "children": [0]}
    assert structure_from_json(hostile, [1.0]) == (1.0,)
    hostile = {"class": "this:Pair", "names": ["a"], "children": [0], "other": {"is": None}}
    assert structure_from_json(hostile, [1.0]).a == 1.0
    assert not {"antigravity", "this"} & {*sys.modules}


@jax.jit
def jitted(x):
    return 0.5 * jnp.sum(x**2)


other_name = jax.jit(bowl)


def test_a_setting_that_came_later_is_named():
    """The run is not damaged: its version of sundman can go on with it."""
    encoder = Encoder()
    content = encoder.encode(sundman.integrators.low_rank_baoab(), "sampler")
    del content["fields"]["loudest"]
    with pytest.raises(StoreError, match="another version of sundman, whose LowRankBaoab has no"):
        Decoder(encoder.arrays, ours=True).decode(content)


def test_a_state_of_another_version_is_told_of_and_its_draws_can_be_read(tmp_path, monkeypatch):
    """Directions of large arrays were once kept in 32 bits."""
    sampler = sundman.compose(integrators.low_rank_baoab(), clocks.constant(0.01))
    given = {"sampler": sampler, "init": jnp.ones(5000)}
    with monkeypatch.context() as earlier:
        earlier.setattr(_directions, "zeros", lambda number, x: jnp.zeros((number, *x.shape)))
        broken_off(tmp_path / "run", **given)
    jax.clear_caches()  # what was compiled made them as they were
    with pytest.raises(StoreError, match=r"directions.* is float32 .* there and uint16 .* again"):
        sundman.resume(tmp_path / "run")
    assert len(sundman.Draws.open(tmp_path / "run")) > 0


def test_a_warm_up_of_another_version_is_told_of():
    gradient = as_gradient(bowl, None, False)
    problem, first = begin(
        sundman.auto(), gradient, gradient, jnp.ones((2, 3)), 1.0, jax.random.key(0)
    )
    numbers, arrays = saved.from_bytes(saved.pack(first))
    assert np.array_equal(
        saved.unpack(saved.pack(first), problem, first).walk.grads, first.walk.grads
    )
    arrays["walk/position"] = arrays["walk/position"].astype(np.float16)
    content = saved.to_bytes(numbers, arrays)
    with pytest.raises(StoreError, match=r"position is float16 .* float32 .* started again"):
        saved.unpack(content, problem, first)


def test_a_class_of_ours_is_found_in_its_room_whatever_its_module_was():
    sampler = sundman.sgnht(1e-3, gamma=2.0)
    content = Encoder().encode(sampler.integrator, "sampler")
    name = content["value"].partition(":")[2]
    content["value"] = f"sundman.integrators._of_an_earlier_version:{name}"
    assert Decoder({}, ours=True).decode(content) == sampler.integrator
    content["value"] = f"sundman.clocks._of_an_earlier_version:{name}"
    with pytest.raises(StoreError, match="any more"):
        Decoder({}, ours=True).decode(content)


@pytest.mark.long
def test_a_jitted_function_goes_by_its_name(tmp_path):
    broken_off(tmp_path / "run", target=jitted)
    assert_same(sundman.resume(tmp_path / "run"), run(target=jitted))


LOCAL = {
    "lambda": (lambda x: 0.5 * jnp.sum(x**2), "target is a lambda"),
    "jitted under another name": (other_name, "target is bowl, which is not what its module has"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.filterwarnings("default::sundman.store.StoreWarning")
def test_what_has_no_name_is_told_at_the_start(tmp_path, name):
    potential, why = LOCAL[name]
    with pytest.warns(StoreWarning, match=rf"broken off.*{why}.*sundman.resume\(.*target=\.\.\."):
        broken_off(tmp_path / "run", target=potential)
    with pytest.raises(StoreError, match=rf"{why}.*target=\.\.\."):
        sundman.resume(tmp_path / "run")
    assert_same(sundman.resume(tmp_path / "run", target=potential), run(target=potential))


@pytest.mark.filterwarnings("default::sundman.store.StoreWarning")
def test_a_function_in_a_function_is_told_at_the_start(tmp_path):
    def inner(x):
        return x**2

    with pytest.warns(StoreWarning, match="online is inner, which is defined inside a function"):
        broken_off(tmp_path / "run", online=inner)
    assert_same(sundman.resume(tmp_path / "run", online=inner), run(online=inner))


@pytest.mark.long
def test_a_function_that_is_gone_or_was_edited(tmp_path, monkeypatch):
    here = sys.modules[__name__]

    def temporary(x):
        return 0.5 * jnp.sum(x**2)

    temporary.__qualname__, temporary.__module__ = "temporary", __name__
    monkeypatch.setattr(here, "temporary", temporary, raising=False)
    broken_off(tmp_path / "run", target=temporary)
    monkeypatch.delattr(here, "temporary")
    with pytest.raises(StoreError, match=r"there is no temporary in .* any more: put it back"):
        sundman.resume(tmp_path / "run")

    def edited(x):
        return 0.6 * jnp.sum(x**2)

    edited.__qualname__, edited.__module__ = "temporary", __name__
    monkeypatch.setattr(here, "temporary", edited, raising=False)
    with pytest.raises(StoreError, match=r"is another run: .*U near the first position"):
        sundman.resume(tmp_path / "run")


@pytest.mark.long
@pytest.mark.filterwarnings("default::sundman.store.StoreWarning")
def test_a_function_of_a_notebook_is_told_at_the_start(tmp_path, monkeypatch):
    """It is found again where the notebook, or the script, runs."""

    def of_a_cell(x):
        return 0.5 * jnp.sum(x**2)

    of_a_cell.__qualname__, of_a_cell.__module__ = "of_a_cell", "__main__"
    monkeypatch.setattr(sys.modules["__main__"], "of_a_cell", of_a_cell, raising=False)
    with pytest.warns(StoreWarning, match="of_a_cell will be found .* this script or notebook"):
        broken_off(tmp_path / "run", target=of_a_cell)
    copy = shutil.copytree(tmp_path / "run", tmp_path / "copy")
    assert_same(sundman.resume(tmp_path / "run"), run(target=of_a_cell))
    monkeypatch.delattr(sys.modules["__main__"], "of_a_cell")
    with pytest.raises(StoreError, match="of_a_cell is of the script or notebook that began"):
        sundman.resume(copy)
    assert_same(sundman.resume(copy, target=of_a_cell), run(target=of_a_cell))


@pytest.mark.parametrize("make", ["star", "funnel", "gaussian", "double-well"])
def test_targets_of_ours_come_back_whole(make):
    """With their truth, which a report compares with."""
    target, encoder = sundman.targets.named(make, temperature=2.0), Encoder()
    content = encoder.encode(target, "target")
    again = Decoder(encoder.arrays, ours=True).decode(content)
    assert again == target
    assert again.truth == target.truth


FORK = """
import os, sys, warnings
from pathlib import Path
from sundman.store.files import Lock, StoreError
lock = Lock(Path(sys.argv[1]))
ready, done = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    os.close(done[1])  # so that it ends with its parent
    os.write(ready[1], b"x")
    os.read(done[0], 1)
    os._exit(0)
os.read(ready[0], 1)
try:
    Lock(Path(sys.argv[1]))
except StoreError as error:
    assert "being written" in str(error)  # the parent still has it
else:
    raise AssertionError("two have the lock")
lock.release()
Lock(Path(sys.argv[1])).release()
os.write(done[1], b"x")
os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_run_moved_renamed_and_read_only(finished, tmp_path):
    wanted = sundman.Draws.open(finished).mean().value
    moved = finished.rename(tmp_path / "another name")
    assert_same(sundman.Draws.open(moved), sundman.resume(moved))
    for path in [moved, *moved.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    np.testing.assert_array_equal(sundman.Draws.open(moved).mean().value, wanted)
    for path in [moved, *moved.rglob("*")]:
        path.chmod(0o700)


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be another user")
def test_a_run_of_another_user_is_opened(finished, part, capsys):
    """Who may read it, and nothing more."""
    place = Path(tempfile.mkdtemp())
    judged = sundman.judge(whole())  # what is imported on the way may be for root's eyes only
    try:
        for run_path in (finished, part):
            shutil.copytree(run_path, place / run_path.name)
        for path in [place, *place.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        sundman_command(["runs", str(place)])
        listed = capsys.readouterr().out
        os.seteuid(_NOBODY)
        theirs = sundman.Draws.open(place / "finished")
        assert_same(theirs, whole())
        assert_same(sundman.resume(place / "finished"), whole())
        assert sundman.judge(theirs) == judged
        assert sundman_command(["runs", str(place)]) == 0
        assert capsys.readouterr().out == listed
        with pytest.raises(StoreError, match=r"part cannot be written: .*Permission denied"):
            sundman.resume(place / "part")
    finally:
        os.seteuid(0)
        shutil.rmtree(place)
