"""Several devices: the same draws along ``chain``, and up to rounding along ``data``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.compiled import SHARED_PROGRAMS
from tests.run import on_devices

pytestmark = pytest.mark.xdist_group("devices")


def run_on_eight(directory: Path, *names: str) -> Path:
    """The directory with what eight virtual devices have drawn."""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    root = Path(__file__).parents[2]
    environment = {**os.environ, **SHARED_PROGRAMS, "XLA_FLAGS": flags, "PYTHONPATH": str(root)}
    child = [sys.executable, "-W", "ignore", on_devices.__file__, str(directory), *names]
    subprocess.run(child, env=environment, check=True, timeout=500)
    return directory


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    return run_on_eight(tmp_path_factory.mktemp("devices"))


def leaves(path):
    with np.load(path) as archive:
        return [archive[name] for name in archive.files]


def here(run, tmp_path, **more):
    on_devices.save(run(**more), tmp_path / "here.npz")
    return leaves(tmp_path / "here.npz")


@pytest.mark.parametrize(
    ("run", "chains", "names"),
    [
        pytest.param(on_devices.star, 8, ["star-8 default", "star-8 on 4", "longer"], id="star"),
        pytest.param(on_devices.star, 40, ["star-40 on 8"], id="many", marks=pytest.mark.long),
        pytest.param(on_devices.network, 8, ["network on 8", "network on 4"], id="network"),
    ],
)
def test_chains_do_not_depend_on_their_device(eight, tmp_path, run, chains, names):
    alone = here(run, tmp_path, chains=chains)
    for name in names:
        for one, other in zip(alone, leaves(eight / f"{name}.npz"), strict=True):
            np.testing.assert_array_equal(one, other, name)


@pytest.mark.slow
def test_a_run_goes_on_on_other_devices(tmp_path):
    """Broken off on four, then on eight and on one, and ended on two."""
    run_on_eight(tmp_path, "resumed on 2")
    alone = here(on_devices.star, tmp_path, chains=8)
    for one, other in zip(alone, leaves(tmp_path / "resumed on 2.npz"), strict=True):
        np.testing.assert_array_equal(one, other)


def check_close(directory, tmp_path, run, name):
    for one, other in zip(here(run, tmp_path), leaves(directory / f"{name}.npz"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_split_minibatch_has_the_same_rows(eight, tmp_path):
    check_close(eight, tmp_path, on_devices.network, "network 2 by 4")


@pytest.mark.slow
def test_split_parameters_and_streamed_batches(tmp_path):
    run_on_eight(tmp_path, "split", "streamed 2 by 4")
    check_close(tmp_path, tmp_path, on_devices.network, "split")
    check_close(tmp_path, tmp_path, on_devices.streamed, "streamed 2 by 4")


def test_the_run_says_where_it_was(eight):
    said = json.loads((eight / "said.json").read_text())
    assert said["devices"] == 8
    assert said["events"][0] == "devices: on 8 of 8 devices: chains over 8"
    assert said["one"] is None  # a mesh of one device is none: it runs as it would without
    assert said["settings"] == {
        "star-8 default": "8 of 8 devices: chains over 8",
        "star-8 on 4": "4 of 8 devices: chains over 4",
        "star-40 on 8": "8 of 8 devices: chains over 8",
        "network on 8": "8 of 8 devices: chains over 8",
        "network on 4": "4 of 8 devices: chains over 4",
        "network 2 by 4": "8 of 8 devices: chains over 2, minibatches over 4",
        "longer": "2 of 8 devices: chains over 2",
    }


def test_parameters_are_split_if_asked(eight):
    whole, split = json.loads((eight / "said.json").read_text())["placed"]
    assert set(whole.values()) == {"P('chain',)"}
    assert split == {
        "kernel": "P('chain', None, 'data')",
        "bias": "P('chain',)",  # three numbers cannot be split in two
    }


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("chains", "chains=6 cannot be split evenly over the axis chain of the mesh, 4 devices"),
        ("axis", "the axes of a mesh are chain and data; got 'rows'"),
        ("no rows", "the mesh has data=4, and this target has no rows to split"),
        ("rows", "batch_size=18 cannot be split evenly over the axis data of the mesh, 4 devices"),
        ("all rows", "the rows of the data=40 cannot be split evenly"),
        ("no mesh", "mesh must be a jax.sharding.Mesh"),
        ("parameters", "shard_parameters=True splits arrays over the axis data of a mesh"),
    ],
)
def test_a_mesh_that_does_not_fit_is_refused(eight, case, words):
    assert words in json.loads((eight / "said.json").read_text())["refusals"][case]
