"""The paper's experiments, run for real at a chosen budget, each claim with a verdict.

    result = sundman.paper.run("fig-star", scale="quick", directory="runs")
    result.verdicts, result.numbers, result.report()

A run that was broken off goes on where it stopped, if it is given the same directory: every row,
seed or step size leaves a small file when it is done, and a network's chain goes on mid-way.
"""

from sundman.paper.experiment import SCALES
from sundman.paper.reproduce import NAMES, Result, run, units

__all__ = ["NAMES", "SCALES", "Result", "run", "units"]
