"""Those who are told how a run goes: the display, the log, TensorBoard, and whoever else."""

from sundman.watch.events import BlockReport, Summary, Watcher
from sundman.watch.log import JsonLines, TensorBoard, read_log
from sundman.watch.progress import Progress

__all__ = [
    "BlockReport",
    "JsonLines",
    "Progress",
    "Summary",
    "TensorBoard",
    "Watcher",
    "read_log",
]
