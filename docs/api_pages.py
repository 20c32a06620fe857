"""Griffe extension: the package as the API pages show it, by its public names and with links.

Links: cross-reference roles of docstrings become references. A docstring names a thing as Python
sees it from there, ``:class:`Clock``` in a module where ``Clock`` is defined or imported, or by its
full path, ``:func:`sundman.sample```. The link leads to the page that shows it, and
``mkdocs build --strict`` fails if none does.

Names: a class that goes by its name in lower case, ``energy = Energy``, is shown by that name. A
function that a package imports from its module of the same name, such as
``sundman.gradients.minibatch``, hides the module, as it does in Python.
"""

import contextlib
import re
from collections.abc import Iterator

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`([\w.]+)`")


class ApiPages(griffe.Extension):
    """Links the docstrings of a package, and gives what it exports its public names."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """The whole package is loaded: names can be looked up in it."""
        everything = list(_walk(pkg))
        objects = [each for each in everything if isinstance(each, griffe.Object)]
        for obj in objects:
            if obj.docstring is not None:
                obj.docstring.value = _linked(obj, obj.docstring.value)
        modules = [obj for obj in objects if isinstance(obj, griffe.Module)]
        renamed = [(module, *each) for module in modules for each in _public_names(module)]
        for module, name, target in renamed:
            hidden = module.members[name]
            module.members[name] = griffe.Alias(name, target, parent=module)
            for alias in everything:
                if isinstance(alias, griffe.Alias) and alias.resolved and alias.target is hidden:
                    alias.target = target


def _walk(obj: griffe.Object) -> Iterator[griffe.Object | griffe.Alias]:
    """The object and all in it; imported names are looked up on the way."""
    yield obj
    for member in obj.members.values():
        if isinstance(member, griffe.Object):
            yield from _walk(member)
        else:
            with contextlib.suppress(griffe.AliasResolutionError, griffe.CyclicAliasError):
                member.resolve_target()
            yield member


def _linked(obj: griffe.Object, text: str) -> str:
    """The docstring of an object with references of mkdocs-autorefs in the place of roles."""

    def link(role: re.Match[str]) -> str:
        path = role[1]
        if not path.startswith("sundman."):
            with contextlib.suppress(griffe.NameResolutionError):
                path = obj.resolve(path)
        return f"[`{role[1]}`][{path}]"

    return _ROLE.sub(link, text)


def _public_names(module: griffe.Module) -> Iterator[tuple[str, griffe.Object]]:
    """Names in a module that stand for something else than Griffe takes them for."""
    for name, member in module.members.items():
        if isinstance(member, griffe.Attribute):
            target = module.members.get(str(member.value))
            if isinstance(target, griffe.Class):
                yield name, target
        elif isinstance(member, griffe.Module):
            path = module.imports.get(name, "").removeprefix(f"{member.path}.")
            if path in member.members:
                yield name, member.members[path]
