"""Reports: one self-contained page of HTML for a run or an experiment."""

from sundman.report.model import Figure, Outcome, Report, Section, Table, Verdict

__all__ = ["Figure", "Outcome", "Report", "Section", "Table", "Verdict"]
