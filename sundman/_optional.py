"""Packages that only some parts of sundman need, and the extras that install them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Import optional packages inside this block; a missing one is an error naming the extra.

    >>> with needs_extra("store"):
    ...     import zarr
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "sundman"):
            raise
        raise ModuleNotFoundError(
            f"this needs the package {package}, which is not installed: "
            f"pip install 'sundman[{extra}]'",
            name=error.name,
        ) from error
