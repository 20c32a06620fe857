"""What an experiment gives: settings, numbers, verdicts, figures and tables, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sundman.paper.units import write_text
from sundman.report.model import Figure, Report, Section, Table, Verdict

PAPER = """@article{rajpal2025adaptive,
  title = {Adaptive Stepsizing for Stochastic Gradient {Langevin} Dynamics in {Bayesian} Neural
           Networks},
  author = {Rajpal, Rajit and Leimkuhler, Benedict and Jiang, Yuanhao},
  journal = {arXiv preprint arXiv:2511.11666},
  year = {2025}
}"""


@dataclass(frozen=True)
class Result:
    """One experiment at one scale and seed.

    Attributes:
      name: which experiment.
      scale: its budget.
      seed: the first seed.
      settings: every setting, by name.
      numbers: everything measured, as JSON has it.
      verdicts: the paper's claims, one by one.
      figures: pictures.
      tables: the numbers in rows.
      wall_seconds: how long it took, in one go or in several.
      version: of sundman.
      date: when it was made.
      command: what makes it again.
    """

    name: str
    scale: str
    seed: int
    settings: dict[str, Any]
    numbers: dict[str, Any]
    verdicts: Sequence[Verdict] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    wall_seconds: float = 0.0
    version: str = ""
    date: str = ""
    command: str = ""
    citations: Sequence[str] = field(default=(PAPER,))

    def to_json(self, *, pictures: bool = True) -> str:
        """All of it as text; without ``pictures`` these are named by file and not contained."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content["verdicts"] = [asdict(verdict) for verdict in self.verdicts]
        content["tables"] = [asdict(table) for table in self.tables]
        content["figures"] = [
            {
                "title": figure.title,
                "alt": figure.alt,
                "caption": figure.caption,
                "file": self.file_of(i),
                **({"png": base64.b64encode(figure.png).decode()} if pictures else {}),
            }
            for i, figure in enumerate(self.figures)
        ]
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, directory: str | Path | None = None) -> Result:
        """The result that ``to_json`` wrote; pictures it only names are read from ``directory``."""
        content = json.loads(text)

        def picture(entry: dict[str, str]) -> bytes:
            if "png" in entry:
                return base64.b64decode(entry["png"])
            path = None if directory is None else Path(directory) / entry["file"]
            return path.read_bytes() if path is not None and path.is_file() else b""

        content["figures"] = tuple(
            Figure(entry["title"], entry["alt"], picture(entry), entry["caption"])
            for entry in content["figures"]
        )
        content["verdicts"] = tuple(Verdict(**entry) for entry in content["verdicts"])
        content["tables"] = tuple(Table(**entry) for entry in content["tables"])
        content["citations"] = tuple(content["citations"])
        return cls(**content)

    def file_of(self, number: int) -> str:
        """The file name of a figure."""
        return f"{self.name}-{self.scale}-{number + 1}.png"

    def write(self, directory: str | Path) -> Path:
        """Write the JSON file and the pictures; the former's path."""
        where = Path(directory)
        where.mkdir(parents=True, exist_ok=True)
        for i, figure in enumerate(self.figures):
            (where / self.file_of(i)).write_bytes(figure.png)
        path = where / f"{self.name}-{self.scale}.json"
        write_text(path, self.to_json(pictures=False))
        return path

    @classmethod
    def read(cls, path: str | Path) -> Result:
        """A result that was written, with its pictures."""
        return cls.from_json(Path(path).read_text(), Path(path).parent)

    def report(self) -> Report:
        """The result as a report, to be written as a page."""
        counts = {
            outcome: sum(verdict.outcome == outcome for verdict in self.verdicts)
            for outcome in ("reproduces", "partly", "does not reproduce", "not tested")
        }
        found = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
        return Report(
            title=f"{self.name}, scale {self.scale}",
            summary=f"{len(self.verdicts)} claims examined: {found}." if found else "",
            command=self.command,
            settings=self.settings,
            made={
                "version": self.version,
                "date": self.date,
                "seed": self.seed,
                "wall seconds": round(self.wall_seconds, 1),
            },
            verdicts=self.verdicts,
            sections=[
                *(Section(table.title, tables=[table]) for table in self.tables),
                *(Section(figure.title, figures=[figure]) for figure in self.figures),
            ],
            citations=self.citations,
        )
