"""Every sampler on every target, exact and noisy gradients, two temperatures: is its law right?

``PYTHONPATH=tests python tests/law/test_family.py [sampler ...]`` prints the biases.
"""

from __future__ import annotations

import itertools
import sys

import pytest
from family import PLACES, biases
from samplers import SAMPLERS

PRECISE = 0.06
ALL = [
    (name, where, T, noisy)
    for name, where, T, noisy in itertools.product(SAMPLERS, PLACES, (1.0, 0.3), (False, True))
    if where not in SAMPLERS[name].unfair and not (noisy and SAMPLERS[name].biased)
]


def check(name: str, where: str, T: float, noisy: bool) -> None:
    found = biases(name, where, T, noisy)
    off = {key: bias for key, bias in found.items() if abs(bias.at_half) > bias.explained}
    told = "\n".join(f"{key}: {bias}" for key, bias in found.items())
    assert all(bias.error < PRECISE for bias in found.values()), f"too few draws to tell:\n{told}"
    if SAMPLERS[name].biased:
        assert off, f"{name} is biased by design, but on {where} it was not:\n{told}"
    else:
        assert not off, f"{name} on {where}, T={T}, {'noisy' if noisy else 'exact'}:\n{told}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "where", "T", "noisy"), ALL)
def test_law(name: str, where: str, T: float, noisy: bool) -> None:
    check(name, where, T, noisy)


if __name__ == "__main__":
    for case in ALL:
        if not sys.argv[1:] or case[0] in sys.argv[1:]:
            for key, bias in biases(*case).items():
                right = "right" if abs(bias.at_half) <= bias.explained else "BIASED"
                print(*case, key, bias, right, flush=True)
