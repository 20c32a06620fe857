"""The types that every room shares."""

from __future__ import annotations

from typing import Any, TypeAlias

PyTree: TypeAlias = Any
"""A nest of tuples, lists, dicts and registered classes with arrays as leaves.

Python's types cannot say more of it, so this is the one place where ``Any`` stands for it.
"""
