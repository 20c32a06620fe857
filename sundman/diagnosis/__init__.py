"""What a run looks like: the rows of :func:`sundman.diagnose`, one module per kind."""

from sundman.diagnosis.table import Diagnosis, Row

__all__ = ["Diagnosis", "Row"]
