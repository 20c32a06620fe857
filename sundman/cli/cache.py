"""Compiled programs are kept from one command to the next.

In ``JAX_COMPILATION_CACHE_DIR`` if that is set, else in $XDG_CACHE_HOME/sundman/jax or
~/.cache/sundman/jax. A cache that cannot be written is done without, and a program in it that was
cut off, by another command that was killed or is still writing it, is compiled again.
"""

from __future__ import annotations

import os
import warnings

import jax

from sundman.data.files import cache_directory


def use(wanted: bool = True) -> None:
    """Keep compiled programs on disk for this process, or not."""
    if not wanted:
        jax.config.update("jax_enable_compilation_cache", False)
        return
    where = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(cache_directory() / "jax")
    try:
        os.makedirs(where, exist_ok=True)
    except OSError:
        return
    warnings.filterwarnings("ignore", message="Error .* persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", where)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_raise_persistent_cache_errors", False)
