"""Commands whose help shows what is registered, and an option without a value as just that."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from sundman.cli import options


def _bare(params: list[Any]) -> list[Any]:
    """The parameters; a flag has no type to show, though newer parsers would write <bool>."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters."""
        return _bare(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names that are registered by now."""
        shown: list[Any] = [self, *self.params]
        for each in shown:
            each.help = options.with_names(each.help)
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """The command that has all others."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters."""
        return _bare(super().get_params(ctx))
