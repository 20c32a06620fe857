"""A stand-in for draws on disk: counts how much is asked for at a time."""

import numpy as np


class OnDisk:
    """Reads like an array of draws, and remembers the largest piece that was asked for."""

    def __init__(self, array):
        self._array = np.asarray(array)
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim
        self.largest = 0

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        assert sum(isinstance(part, np.ndarray) for part in parts) <= 1
        assert all(isinstance(part, slice | int | np.integer | np.ndarray) for part in parts)
        found = np.array(self._array[index])
        self.largest = max(self.largest, found.nbytes)
        return found

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[:], dtype)
