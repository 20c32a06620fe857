"""Reports: one self-contained page of HTML for a run or an experiment.

    report = sundman.report.of_run("runs/star")
    sundman.report.write(report, "star.html")

``of_runs`` is the report of several side by side. A report of your own is a :class:`Report` of
sections, tables and figures.
"""

from sundman.report.compare import of_runs
from sundman.report.model import Figure, Outcome, Report, Section, Table, Verdict
from sundman.report.page import render, write
from sundman.report.run import of_run

__all__ = [
    "Figure",
    "Outcome",
    "Report",
    "Section",
    "Table",
    "Verdict",
    "of_run",
    "of_runs",
    "render",
    "write",
]
