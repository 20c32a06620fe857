"""Can I trust this run? ``diagnose`` and the table that it returns."""

from sundman.diagnosis.checks import diagnose
from sundman.diagnosis.table import Diagnosis, Row

__all__ = ["Diagnosis", "Row", "diagnose"]
