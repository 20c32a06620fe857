"""The ``sundman`` command: samplers, networks and reports from the shell.

There is a folder or a module for each command; the small ones are in ``app``, with the list of all.
What they share: options, settings, samplers by name, output and errors. Here is the entry point:
errors become one line on stderr and an exit code,

    0 done, 1 a run failed or all its chains diverged, 2 the command is wrong, 130 stopped by Ctrl-C
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import jax

from sundman._optional import MissingExtra, needs_extra
from sundman.cli.errors import RunFailed, Stopped, UserError, one_line
from sundman.run import hosts
from sundman.run.hosts import HostLostError
from sundman.store import StoreError

_DEBUG = "SUNDMAN_DEBUG"


def main() -> None:
    """Run the command of this process and exit."""
    code = run(sys.argv[1:])
    if code and jax.distributed.is_initialized():  # the others are not to wait for this process
        hosts.dismiss_witness()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with needs_extra("cli", "the command line"):
                from sundman.cli.app import app
            code = app(list(arguments) or ["--help"], prog_name="sundman", standalone_mode=False)
            return code if isinstance(code, int) else 0
        except KeyboardInterrupt:
            return _print_error("stopped; nothing was stored", 130)
        except Stopped as stopped:
            return _print_error(stopped, 130)
        except UserError as error:
            return _print_error(error, 2)
        except BrokenPipeError:  # the reader of a pipe, such as head, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except MissingExtra as error:
            return _print_error(error, 1)
        except Exception as error:
            return _unexpected(error)


@runtime_checkable
class _ParserError(Protocol):
    """An error of the parser of the command line; its class depends on the version of typer."""

    def format_message(self) -> str:
        """What is wrong."""
        ...


def _unexpected(error: Exception) -> int:
    """A wrong option, by the parser of the command line; or something that should not happen."""
    if isinstance(error, _ParserError):
        return _print_error(_parser_message(error), 2)
    if os.environ.get(_DEBUG):
        raise error
    if isinstance(error, HostLostError):
        hosts.have_the_last_word()
    if isinstance(error, RunFailed | StoreError | HostLostError):
        return _print_error(error, 1)
    name = type(error).__name__
    return _print_error(f"failed with {name}: {error}; set {_DEBUG}=1 to see where", 1)


def _parser_message(error: _ParserError) -> str:
    """The parser's message in our form: what is wrong; what to do."""
    message = one_line(error.format_message())
    for mark in (". Did you mean", " Did you mean"):
        if mark in message:
            wrong, meant = message.split(mark, 1)
            return f"{wrong[0].lower()}{wrong[1:]}; did you mean{meant}"
    if " (Possible options: " in message:
        wrong, options = message.removesuffix(")").split(" (Possible options: ", 1)
        return f"{wrong[0].lower()}{wrong[1:]}; did you mean {options}?"
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "sundman"
    return f"{message[0].lower()}{message[1:].rstrip('.')}; see {path} --help"


def _print_error(message: object, code: int) -> int:
    print(f"sundman: {one_line(message)}", file=sys.stderr)
    return code


def _show_warning(message: Warning | str, *_: object) -> None:
    print(f"sundman: warning: {one_line(message)}", file=sys.stderr)
