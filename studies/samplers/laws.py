"""The laws on two pages, README.md and laws.md.

Every table is a part, with settings of its own. A part is stored as soon as it is measured, with
its settings and how long it took, and one that is there with the same settings is not measured
again. The pages are written by ``laws_page.py`` from the file.

    python -m studies.samplers.laws                        # what is missing
    python -m studies.samplers.laws --parts star --again   # one part anew
    python -m studies.samplers.laws_page                   # the pages from the file
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

import sundman
from studies.report import settings as machine
from studies.samplers import laws_samplers, laws_schemes
from studies.samplers.laws_runs import to_json

RESULT = Path(__file__).parent / "results" / "laws.json"
PARTS = {**laws_schemes.PARTS, **laws_samplers.PARTS}


def measure(name: str, quick: bool) -> dict[str, Any]:
    """The settings of a part, its values, and the seconds they took."""
    part = PARTS[name].shortened() if quick else PARTS[name]
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        warnings.simplefilter("ignore", sundman.TrustWarning)
        values = to_json(part.measure(part.settings))
    seconds = round(time.perf_counter() - began, 1)
    return {"settings": part.settings, "seconds": seconds, "values": values}


def missing(parts: dict[str, Any], names: list[str], quick: bool) -> list[str]:
    """The parts that are not stored, or with other settings."""
    current = {n: PARTS[n].shortened() if quick else PARTS[n] for n in names}
    return [n for n in names if parts.get(n, {}).get("settings") != current[n].settings]


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="only these")
    parser.add_argument("--again", action="store_true", help="also what is stored")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the steps; no result")
    parser.add_argument("--workers", type=int, default=2, help="parts measured at a time")
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    if options.quick and options.output is None:
        parser.error("--quick needs --output: it is not to overwrite what was measured")
    output = options.output or RESULT
    stored = json.loads(output.read_text())["parts"] if output.exists() else {}
    names = options.parts if options.again else missing(stored, options.parts, options.quick)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.workers, context) as pool:
        runs = {pool.submit(measure, name, options.quick): name for name in names}
        for done in concurrent.futures.as_completed(runs):
            stored[runs[done]] = done.result() | {"machine": machine(workers=options.workers)}
            ordered = {name: stored[name] for name in PARTS if name in stored}
            about = {"command": "python -m studies.samplers.laws", "quick": options.quick}
            output.write_text(json.dumps({**about, "parts": ordered}, indent=1) + "\n")
            print(f"{runs[done]}: {stored[runs[done]]['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
