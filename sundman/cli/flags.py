"""Commands whose help shows an option without a value as just that."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


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


class Group(TyperGroup):
    """The command that has all others."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters."""
        return _bare(super().get_params(ctx))
