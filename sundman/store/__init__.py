"""Runs on disk: data only, that anyone can open without running code from it.

PATH/run.json        what the run is: settings, shapes, pytrees, versions, its fingerprint
PATH/call.json       the call that made it: values by class and fields, functions by name
PATH/data.npz        the arrays of that call
PATH/draws.zarr      values/<leaf>, weight, stats/<name>; axes (chain, draw, ...)
PATH/progress.json   how many draws count, and the checksum of each chunk of them
PATH/checkpoints/    complete states, the first and the last two
PATH/verdict.json    whether to trust it, once it is finished
PATH/log.jsonl       one record per block
PATH/lock            held while a process writes
"""

from sundman.store.files import StoreError, StoreWarning

__all__ = ["StoreError", "StoreWarning"]
