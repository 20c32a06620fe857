"""``sundman.sample`` as experiments use it: without warnings, and with one loop to compile.

Compiling takes most of a short run, and burn-in is a loop of its own. In memory the draws of the
burn-in are made like all others, and dropped.
"""

from __future__ import annotations

import warnings
from typing import Any

import sundman


def sample(*arguments: Any, **options: Any) -> sundman.Draws:
    """As :func:`sundman.sample`; a chain that diverged is told of in the draws alone."""
    dropped = 0
    if options.get("store") is None and options.get("burn_in"):
        dropped, options["burn_in"] = divmod(options["burn_in"], options.get("thin", 1))
        options["steps"] += dropped * options.get("thin", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        draws = sundman.sample(*arguments, **options)
    return draws[dropped:] if dropped else draws
