"""``sundman demo``: two targets with exact moments, a network, and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from sundman.cli import cache, folder, options


def demo(
    output: Annotated[
        Path | None,
        options.output("--output", "-o", text="Directory. [default: sundman-demo]"),
    ] = None,
    seed: Annotated[
        int, options.run("--seed", text="Of all random numbers. [default: 2026]")
    ] = 2026,
    force: options.Force = False,
    no_cache: options.NoCache = False,
    quick: Annotated[
        bool, options.run("--quick", text="A hundredth of the steps: a try-out, not a result.")
    ] = False,
) -> None:
    """Samplers against exact moments, and a Bayesian network; about a minute on two cores.

    SGLD, SA-SGLD, LM and SA-LM at one mean step on the star and on Mueller-Brown, then a network on
    scikit-learn's digits beside its single best fit. Ends with the path of a report.

    For example:

    sundman demo --output demo
    """
    from sundman import check
    from sundman.cli import demo_digits, demo_figure, demo_report, demo_toys, screen
    from sundman.cli.errors import at_the_door
    from sundman.report import write

    began = time.perf_counter()
    cache.use(not no_cache)
    with at_the_door():
        check.count("seed", seed, least=0)
    path = folder.prepare(output or folder.free(Path("sundman-demo")), force)
    out = screen.console()
    size = demo_toys.SMALL if quick else demo_toys.FULL
    toys = [demo_toys.compare(target, size, seed) for target in demo_toys.targets_shown()]
    for toy in toys:
        for table in toy.tables:
            screen.show(out, table)
    network = demo_digits.compare(size.network_steps, seed)
    screen.show(out, network.table())
    png = demo_figure.draw(toys)
    (path / folder.FIGURE).write_bytes(png)
    page = path / folder.REPORT
    seconds = time.perf_counter() - began
    summary = demo_report.to_see(network, quick)
    write(demo_report.report(toys, network, png, summary, seed, seconds), page)
    screen.say(out, summary)
    screen.say(out, f"{time.perf_counter() - began:.0f} s. Report: {page}")
