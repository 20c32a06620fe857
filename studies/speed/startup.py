"""How long it takes to begin: imports, the first example, the first command, in new processes.

    python -m studies.speed.startup [--rounds 9]

``import sundman`` is timed against ``import jax, optax``, which it needs in any case; the command
``sundman bnn digits`` with two epochs from the shell to its end, with no compiled programs and
with the one it left. The first example of the README, which ends with a verdict, is timed whole: at
most 60 seconds are asked for. Writes ``results/startup.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "startup.json"
COMMAND = Path(sys.executable).parent / "sundman"
README = Path(__file__).parents[2] / "README.md"
IMPORTS = {"import jax, optax": "import jax, optax", "import sundman": "import sundman"}


def seconds(command: list[str], cache: str) -> float:
    """From start to end of a process."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - began


def one_round() -> dict[str, float]:
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, code in IMPORTS.items():
            found[name] = seconds([sys.executable, "-c", code], cache)
        example = README.read_text().split("```python\n")[1].split("```")[0]
        found["first example of the README"] = seconds([sys.executable, "-c", example], cache)
        command = [str(COMMAND), "bnn", "digits", "--sampler", "sgld", "--step", "0.05"]
        for name in ("sundman bnn digits, first time", "sundman bnn digits, again"):
            output = Path(cache) / name.replace(" ", "-")
            found[name] = seconds([*command, "--epochs", "2", "--output", str(output)], cache)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rounds = [one_round() for _ in range(options.rounds)]
    ratios = [found["import sundman"] / found["import jax, optax"] for found in rounds]
    results = {
        "rounds": options.rounds,
        "seconds": {
            name: {"median": statistics.median(times), "range": [min(times), max(times)]}
            for name in rounds[0]
            for times in [[found[name] for found in rounds]]
        },
        "import sundman / import jax, optax": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
    }
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
