"""A registry: things that are found by their names, and that a user may add to.

Names are lower-case words with hyphens; a lookup takes underscores and capitals, too.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from sundman import check

Entry = TypeVar("Entry")


class _Registered(NamedTuple, Generic[Entry]):
    entry: Entry
    maker: object


class Registry(Generic[Entry]):
    """Entries by name, in the order in which they were added.

    Args:
      kind: what the entries are, for errors: ``"target"``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._registered: dict[str, _Registered[Entry]] = {}

    def add(self, name: str, entry: Entry, *, maker: object) -> None:
        """Let an entry be found by its name.

        Args:
          name: lower-case words with hyphens.
          entry: what the name stands for.
          maker: the function that the entry is about. A name may be added again with the same
            maker, as when a module is loaded twice; with another one it is taken.
        """
        if name != normalised(name) or not name.strip():
            raise ValueError(f"name must be lower-case words with hyphens, got name={name!r}")
        if name in self._registered and self._registered[name].maker is not maker:
            raise ValueError(f"there is a {self._kind} of this name already, got name={name!r}")
        self._registered[name] = _Registered(entry, maker)

    def __getitem__(self, name: str) -> Entry:
        """The entry of that name; an unknown name raises with those that are known."""
        known = normalised(str(name))
        if known not in self._registered:
            check.choice("name", name, self.names())
        return self._registered[known].entry

    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they were added."""
        return tuple(self._registered)

    def copy(self) -> Registry[Entry]:
        """A registry with the same entries, to be changed without changing this one."""
        other = Registry[Entry](self._kind)
        other._registered = dict(self._registered)
        return other


def normalised(name: str) -> str:
    """The name in lower case with hyphens."""
    return name.lower().replace("_", "-")
