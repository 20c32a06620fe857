"""A state is stored by the names of its leaves."""

import jax
import numpy as np
import pytest

import sundman
from sundman._trees import named_leaves, with_named_leaves
from sundman.run.disk_sink import to_checkpoint
from sundman.run.setup import prepare
from sundman.run.spec import RunSpec

SA = sundman.sa_sgld(1e-3, alpha=0.1, m=0.1, M=10.0, r=0.5)


def test_the_leaves_of_a_checkpoint_have_names():
    spec = RunSpec(
        target=sundman.targets.star(),
        sampler=SA.with_temperature(1.0),
        key=jax.random.key(0),
        init=None,
        chains=2,
        burn_in=0,
        draws=4,
        thin=1,
        thin_time=None,
        batch_size=None,
        replace=False,
        collect=None,
        online=None,
        weighting="leaving",
        stats=(),
        per_chain=None,
        on_divergence="freeze",
    )
    setup, state = prepare(spec)
    saved = to_checkpoint(state, setup.replicas)
    assert {"position", "state.clock.step", "state.clock.zeta", "state.key"} <= set(saved["chains"])
    assert set(saved["progress"]) == {"pieces", "steps", "draws", "seconds"}
    assert set(saved["divergences"]) == {"low", "frozen", "step", "draw", "times"}


def test_leaves_find_their_places_by_name():
    """Three numbers of one shape and type, saved in another order."""
    tree = {"a": np.float32(1.0), "b": np.float32(2.0), "c": {"d": np.float32(3.0)}}
    leaves = dict(reversed(named_leaves(tree).items()))
    assert list(leaves) == ["c.d", "b", "a"]
    assert with_named_leaves(tree, leaves) == tree
    with pytest.raises(KeyError, match="b"):
        with_named_leaves(tree, {"a": leaves["a"], "c.d": leaves["c.d"]})
