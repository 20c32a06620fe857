"""The samplers people know by name, each an integrator times a clock.

Importing this package registers them in :data:`RECIPES`; as functions they are ``sundman.sgld``
and its like.
"""

from sundman.recipes import kinetic, multimodal, overdamped
from sundman.recipes.registry import RECIPES, Recipe, recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "kinetic",
    "multimodal",
    "overdamped",
    "recipe",
]
