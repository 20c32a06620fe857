"""The paper's experiments, run for real at a chosen budget, each claim with a verdict.

    from studies import sa_sgld

    result = sa_sgld.run("fig-star", scale="quick", directory="runs")
    result.verdicts, result.numbers, result.report()

A run that was broken off goes on where it stopped, if it is given the same directory: every row,
seed or step size leaves a small file when it is done, and a network's chain goes on mid-way.
"""

from studies.sa_sgld.experiment import SCALES
from studies.sa_sgld.reproduce import NAMES, Result, run

__all__ = ["NAMES", "SCALES", "Result", "run"]
