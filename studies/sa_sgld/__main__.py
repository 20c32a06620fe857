"""``python -m studies.sa_sgld table1 --scale paper --directory runs``."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from studies.sa_sgld import NAMES, SCALES, run
from sundman.report import write


def main() -> None:
    """Run an experiment from the command line and print its verdicts."""
    parser = argparse.ArgumentParser(prog="python -m studies.sa_sgld")
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--scale", choices=[s for s in SCALES if s != "test"], default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--directory", default="runs/sa_sgld", type=Path)
    parser.add_argument("--data", help="directory of MNIST, or digits")
    parser.add_argument("--rows", nargs="*", help="only these rows, such as horseshoe/sa-sgld")
    parser.add_argument("--seeds", nargs="*", type=int, help="only these seeds")
    options = vars(parser.parse_args())
    console = Console()
    result = run(options.pop("name"), console=console, **options)
    for verdict in result.verdicts:
        console.print(f"{verdict.outcome:>18}  {verdict.claim}: {verdict.ours}", markup=False)
    page = options["directory"] / f"{result.stem}.html"
    write(result.report(), page)
    console.print(f"{result.wall_seconds:.0f} s of computing; {page}")


if __name__ == "__main__":
    main()
