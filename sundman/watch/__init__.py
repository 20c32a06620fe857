"""Those who are told how a run goes: the display, the log, TensorBoard, and whoever else."""

from sundman.watch.events import BlockReport, Look, ScalarLogger, Stretches, Summary, Watcher
from sundman.watch.follow import Convergence, LogTail, RunHistory
from sundman.watch.log import JsonLines, ScalarWatcher, TensorBoard, read_log
from sundman.watch.progress import Progress

__all__ = [
    "BlockReport",
    "Convergence",
    "JsonLines",
    "LogTail",
    "Look",
    "Progress",
    "RunHistory",
    "ScalarLogger",
    "ScalarWatcher",
    "Stretches",
    "Summary",
    "TensorBoard",
    "Watcher",
    "read_log",
]
