"""The runner: chains, blocks, thinning, guards, runs on disk."""

from sundman.runner.divergence import AllDivergedError, DivergenceError, DivergenceWarning
from sundman.runner.resume import resume
from sundman.runner.run import sample
from sundman.runner.stop import Interrupted
from sundman.watch.log import JsonLines, TensorBoard, read_log

__all__ = [
    "AllDivergedError",
    "DivergenceError",
    "DivergenceWarning",
    "Interrupted",
    "JsonLines",
    "TensorBoard",
    "read_log",
    "resume",
    "sample",
]
