"""The types that every room shares."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

PyTree: TypeAlias = Any
"""A nest of tuples, lists, dicts and registered classes with arrays as leaves.

Python's types cannot say more of it, so this is the one place where ``Any`` stands for it.
"""


Index: TypeAlias = Any
"""What numpy takes between brackets: whole numbers, slices, arrays, and tuples of them."""


class DrawsArray(Protocol):
    """An array with the axes (chain, draw, ...), in memory or on disk; slices of it are NumPy's."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """The type of its numbers."""
        ...

    @property
    def ndim(self) -> int:
        """The number of axes."""
        ...

    def __getitem__(self, index: Index, /) -> np.ndarray:
        """The part that the index asks for, in memory."""
        ...


Settings: TypeAlias = dict[str, Any]
"""Settings by name, as JSON can hold them: numbers, texts, lists and dicts of them."""

Json: TypeAlias = Any
"""What JSON can hold, read from a file."""
