"""The guide to adding a sampler, followed to the letter: one module, one export, one row."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

import sundman

GUIDE = (Path(__file__).parents[1] / "docs" / "adding.md").read_text()
MODULE, EXPORT, ROW = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.S)
sys.path.append(str(Path(__file__).parent / "law"))


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """``tamed`` as a module of integrators, exported, with its row in the battery."""
    import samplers

    module = types.ModuleType("sundman.integrators.tamed")
    exec(MODULE, module.__dict__)
    monkeypatch.setattr(sundman.integrators, "tamed", module.tamed, raising=False)
    names = {
        "sundman": sundman,
        "integrators": sundman.integrators,
        "clocks": sundman.clocks,
        "compose": sundman.compose,
        "Sampler": sundman.Sampler,
        "Row": samplers.Row,
        "SAMPLERS": samplers.SAMPLERS,
    }
    monkeypatch.setitem(samplers.SAMPLERS, "tamed_sgld", None)
    exec(EXPORT + ROW, names)


def test_the_new_sampler_has_the_right_law(followed: None) -> None:
    from family import biases

    found = biases("tamed_sgld", "plane", 0.3, noisy=False)
    for bias in found.values():
        assert abs(bias.at_half) > 0.01, "the battery must see its first-order bias"
        assert abs(bias.at_half) <= bias.explained, str(bias)


def test_the_new_sampler_keeps_the_contract(followed: None) -> None:
    import test_samplers as contract

    contract.test_is_an_optax_transformation("tamed_sgld")
    contract.test_same_key_same_path_other_key_other_path("tamed_sgld")
    contract.test_vmap_over_chains_is_separate_chains("tamed_sgld")
