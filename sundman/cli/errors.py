"""What a user can do wrong, in one line: what is wrong; what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sundman.store import StoreError


class UserError(Exception):
    """Something in the command is wrong; the message says what, and what to do."""


class RunFailed(Exception):
    """The command was right, but what it ran did not succeed."""


class Stopped(Exception):
    """The user stopped a run; the message is how to go on with it."""


def nearest(name: str, names: Collection[str]) -> str:
    """The name that was probably meant, or all there are."""
    close = difflib.get_close_matches(name.lower().replace("_", "-"), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]}?"
    return f"use one of {', '.join(names)}"


def unknown(what: str, name: str, names: Collection[str]) -> UserError:
    """There is no ``what`` of that name."""
    return UserError(f"there is no {what} {name!r}; {nearest(name, names)}")


def one_line(message: object) -> str:
    """A message without its line breaks."""
    return " ".join(str(message).split())


@contextmanager
def as_user_error() -> Iterator[None]:
    """Whatever the library refuses inside is the user's to mend: a :class:`UserError`."""
    try:
        yield
    except (ValueError, TypeError, OSError, StoreError) as error:
        message = one_line(error)
        if ";" not in message:
            message += "; see the options with --help"
        raise UserError(message) from error
