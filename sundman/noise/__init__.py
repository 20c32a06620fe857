"""Noise: a pure function of (key, step, element), fused by XLA into the update it feeds."""

from __future__ import annotations

from collections.abc import Callable

from sundman import check
from sundman._types import PyTree
from sundman.noise.gaussian import gaussian, three_point, two_point
from sundman.noise.stream import (
    Purpose,
    Stream,
    fold,
    key_words,
    substream,
    threefry2x32,
    words,
)

Noise = Callable[[Stream, PyTree], PyTree]

_NOISES: dict[str, Noise] = {
    "gaussian": gaussian,
    "two_point": two_point,
    "three_point": three_point,
}


def named(noise: str | Noise) -> Noise:
    """The noise of that name; a function ``(stream, like) -> tree`` is passed through."""
    if callable(noise):
        return noise
    check.choice("noise", noise, _NOISES)
    return _NOISES[noise]


def name_of(noise: str | Callable[..., object]) -> str:
    """A noise, or another function, in words: for settings."""
    return noise if isinstance(noise, str) else getattr(noise, "__name__", repr(noise))


__all__ = [
    "Noise",
    "Purpose",
    "Stream",
    "fold",
    "gaussian",
    "key_words",
    "name_of",
    "named",
    "substream",
    "three_point",
    "threefry2x32",
    "two_point",
    "words",
]
