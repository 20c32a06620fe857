"""Shared draws, and the path by which the tests find ``quality`` and ``draws`` beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

import draws


@pytest.fixture(scope="session")
def normals() -> NDArray[np.float64]:
    """Ten million normals of one step, in single precision."""
    return draws.elements(10_000_000)
