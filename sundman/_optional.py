"""Packages that only some parts of sundman need, and the extras that install them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class MissingExtra(ModuleNotFoundError):
    """A package is not installed; the message names the extra that installs it."""


@contextlib.contextmanager
def needs_extra(extra: str, what: str = "this") -> Iterator[None]:
    """Turn a failed import in the block into an error that names the extra which installs it::

        with needs_extra("store", "a stored run"):
            import zarr

    Args:
      extra: The name in ``pip install 'sundman[extra]'``.
      what: What needs the package, at the beginning of the error.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "sundman"):
            raise
        raise MissingExtra(
            f"{what} needs {package}, which is not installed: pip install 'sundman[{extra}]'",
            name=error.name,
        ) from error
