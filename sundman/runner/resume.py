"""``resume``: go on with a run on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sundman import check
from sundman.draws import Draws
from sundman.watch.events import Watcher


def resume(
    path: str | os.PathLike[str],
    *,
    checkpoint_every: int | None = None,
    progress: bool | None = None,
    watchers: Sequence[Watcher] = (),
) -> Draws:
    """Go on with a run that was stopped or killed, and return all its draws.

    The draws are bit for bit those of a run that was never interrupted, on the same machine and
    version of JAX. A run that is finished is opened. The call is loaded from ``call.pkl`` by
    pickle: resume only runs you trust.

    Args:
      path: what ``store=`` was.
      checkpoint_every: blocks between checkpoints; by default half a minute.
      progress: as for :func:`sundman.sample`.
      watchers: others to be told how it goes.
    """
    from sundman.runner.on_disk import go_on_with

    if checkpoint_every is not None:
        check.count("checkpoint_every", checkpoint_every, least=1)
    return go_on_with(path, checkpoint_every, progress, watchers)
