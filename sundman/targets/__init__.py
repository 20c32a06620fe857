"""Test densities exp(-U/T) with exact moments, draws and cell masses.

A new target is a function and one line of registration: see "Adding a target" in the
documentation.
"""

from sundman.targets.base import (
    Suggested,
    Target,
    named,
    names,
    register,
    suggest,
)
from sundman.targets.gaussian import GaussianPotential as gaussian_potential
from sundman.targets.gaussian import gaussian
from sundman.targets.ridges import BananaPotential as banana_potential
from sundman.targets.ridges import FunnelPotential as funnel_potential
from sundman.targets.ridges import banana, funnel, star, star_potential
from sundman.targets.wells import DoubleWellPotential as double_well_potential
from sundman.targets.wells import QuarticPotential as quartic_potential
from sundman.targets.wells import (
    double_well,
    mixture,
    mixture_potential,
    muller_brown,
    muller_brown_potential,
    quartic,
)

register("star", star)
register("muller-brown", muller_brown)
register("funnel", funnel)
register("gaussian", gaussian)
register("mixture", mixture)
register("banana", banana)
register("double-well", double_well)
register("quartic", quartic)

__all__ = [
    "Suggested",
    "Target",
    "banana",
    "banana_potential",
    "double_well",
    "double_well_potential",
    "funnel",
    "funnel_potential",
    "gaussian",
    "gaussian_potential",
    "mixture",
    "mixture_potential",
    "muller_brown",
    "muller_brown_potential",
    "named",
    "names",
    "quartic",
    "quartic_potential",
    "register",
    "star",
    "star_potential",
    "suggest",
]
