"""Choices for the whole process."""

from __future__ import annotations

import os

import jax

from sundman import check, native

_NOISE = ("auto", "xla", "native")
_current = {"noise": os.environ.get("SUNDMAN_NOISE", "auto")}


def config(*, noise: str | None = None) -> dict[str, str]:
    """Set how :func:`sundman.sample` works, and return all choices as they are now.

    Args:
      noise: ``"native"`` makes the noise and the update in one pass by the kernels in
        :mod:`sundman.native`, ``"xla"`` leaves both to the compiler, ``"auto"`` takes the
        kernels on CPU if they were built. One key gives one stream of noise on either path, up
        to rounding. The environment variable ``SUNDMAN_NOISE`` sets the first choice.
    """
    if noise is not None:
        check.choice("noise", noise, _NOISE)
        if noise == "native" and not native.available():
            raise ValueError(
                'noise="native" needs the native kernels, which were not built when sundman was '
                'installed: install a C++ compiler (GCC or Clang) and sundman again, or use "xla"'
            )
        _current["noise"] = noise
    return dict(_current)


def native_noise() -> bool:
    """Whether a run begun now uses the native kernels."""
    choice = _current["noise"]
    check.choice("SUNDMAN_NOISE", choice, _NOISE)
    if choice == "xla":
        return False
    if choice == "native":
        return config(noise="native")["noise"] == "native"
    return native.available() and jax.default_backend() == "cpu"
