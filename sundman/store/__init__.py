"""Runs on disk: draws in zarr, checkpoints by orbax, what the run is in JSON.

PATH/run.json        what the run is: settings, shapes, versions
PATH/call.pkl        the call itself, so that it can be resumed by path alone
PATH/structure.pkl   the pytrees that the arrays belong to
PATH/draws.zarr      values/<leaf>, weight, stats/<name>; axes (chain, draw, ...)
PATH/progress.json   how many draws are safe to read
PATH/checkpoints/    complete states, the last two
PATH/log.jsonl       one record per block
PATH/lock            held while a process writes
"""

from sundman.store.files import StoreError

__all__ = ["StoreError"]
