"""``sundman.sample`` without its warnings: experiments count the chains that run away."""

from __future__ import annotations

import warnings
from typing import Any

import sundman


def sample(*arguments: Any, **options: Any) -> sundman.Draws:
    """As :func:`sundman.sample`; a chain that diverged is told of in the draws alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        return sundman.sample(*arguments, **options)
