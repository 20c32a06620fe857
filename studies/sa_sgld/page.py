"""The README of this study, made from its results: claim by claim.

    python -m studies.sa_sgld.page

Of several scales of an experiment, each claim is shown at the largest at which it was tested. Where
an experiment was run again with another seed, what came out is shown beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.sa_sgld.reproduce import NAMES, Result
from sundman.report.model import Outcome, Verdict

ORDER = ("paper", "standard", "quick")
TITLES = {
    "fig-star": "Star",
    "fig-muller-brown": "Müller-Brown",
    "table1": "The table: MNIST",
    "fig-logprob": "Log-probability of the ensemble",
    "fig-robustness": "Robustness to large steps",
    "theory": "Theory",
    "posterior-accuracy": "Distance from the true posterior",
}
# The claims that a reader comes for, as questions: the first screen of the page.
HEADLINES = {
    "Does the method keep the target?": (
        "Star: the weighted averages tend to the truth as the step goes to 0",
        "Star: without the weights the averages stay biased as the step goes to 0",
        "The correlation of step and gradient noise leaves no bias as h -> 0 (memoryless clock)",
        "One zeta per tensor, as in the research code for networks, keeps the target",
    ),
    "Is it more accurate at the same mean step?": (
        "Star: SA-SGLD is more accurate than SGLD at the same mean step",
        "Adaptive steps sample the posterior more accurately (gaussian prior)",
        "Adaptive steps sample the posterior more accurately (horseshoe prior)",
    ),
    "Does it make better predictions?": (
        "Under the gaussian prior SA-SGLD is equal to SGLD at the same mean step",
        "Under the horseshoe prior SA-SGLD is better than SGLD at the same mean step",
    ),
    "Does it stand larger steps, and what does it cost?": (
        "Robustness: SGLD diverges for h in [.45, .55]",
        "Robustness: SA-SGLD at a mean step of about .5 does not diverge",
        "The extra cost of adaptive steps is negligible",
    ),
}
SHOULD_HAVE_SAID = """What the paper should have said: the time weights keep the target as the step
goes to 0, if the average of the squared gradient has a memory of its own; without one, minibatch
noise leaves a bias that no step removes. Where the stiffness varies along the path, as on the star,
adaptive steps are more accurate at the same mean step, and biased at the published one. In a
network that has settled the step hardly varies, so it samples as SGLD does at that step, and the
table's gain under the horseshoe is not seen. The clock costs next to nothing. On the star it stands
larger steps; in the wide network chains of either sampler are lost at large steps, as many of one
as of the other, and which ones depends on the seed.
[The errata](../../docs/errata.md) have the details.
"""
HERE = Path(__file__).parent
HEAD = """# Do the claims of the SA-SGLD paper hold?
"""
MADE = """Each claim of the paper (arXiv:2511.11666) is examined by an experiment that you can run
again; its numbers decide, by a rule that stands beside the claim in the files of `results/`. Errors
are standard errors. `paper` is the published setting of the networks, and the longest run of the
others; `standard` and `quick` are smaller, so their numbers are not those of the paper's table.

```bash
make reproduce                                   # the quick scale: minutes
python -m studies.sa_sgld all --scale standard   # an hour
python -m studies.sa_sgld table1 --scale paper   # 17 minutes for each row and seed
```

The networks need MNIST: `--data DIRECTORY` or `SUNDMAN_DATA_DIR` names where it is, `--data digits`
takes a small stand-in. The same command goes on with a run that was stopped. This page is written
by `python -m studies.sa_sgld.page` from [the results](results/README.md).
"""


def load(directory: str | Path) -> dict[str, dict[str, Result]]:
    """The results in a directory, by experiment and scale."""
    results: dict[str, dict[str, Result]] = {}
    for name in NAMES:
        for scale in ORDER:
            path = Path(directory) / f"{name}-{scale}.json"
            if path.is_file():
                results.setdefault(name, {})[scale] = Result.read(path)
    return results


def load_repeats(directory: str | Path) -> dict[str, list[Result]]:
    """The results of other seeds in a directory, by experiment."""
    return {
        name: [Result.read(path) for path in sorted(Path(directory).glob(f"{name}-*-seed-*.json"))]
        for name in NAMES
    }


def best(results: Mapping[str, Result]) -> list[tuple[str, Verdict]]:
    """(scale, verdict) of each claim: the largest scale that tested it, else the largest."""
    chosen: dict[str, tuple[str, Verdict]] = {}
    for scale in ORDER:
        for verdict in results[scale].verdicts if scale in results else ():
            larger = chosen.get(verdict.claim)
            untested = larger is not None and larger[1].outcome == "not tested"
            if larger is None or (untested and verdict.outcome != "not tested"):
                chosen[verdict.claim] = (scale, verdict)
    return list(chosen.values())


def cell(text: str) -> str:
    """Text for one cell of a table: a bar would end it."""
    return text.replace("|", "\\|").replace("\n", " ")


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [
        f"| {' | '.join(cell(c) for c in columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(cell(c) for c in row)} |" for row in rows),
        "",
    ]


def overview(
    results: Mapping[str, Mapping[str, Result]], repeats: Mapping[str, Sequence[Result]]
) -> list[str]:
    """The first screen: how many claims came out how, the main ones, and what follows."""
    outcomes = [verdict.outcome for each in results.values() for _, verdict in best(each)]
    kinds: dict[Outcome, str] = {
        "reproduces": "reproduce",
        "partly": "do in part",
        "does not reproduce": "do not",
        "not tested": "could not be told",
    }
    counts = ", ".join(f"{outcomes.count(kind)} {text}" for kind, text in kinds.items())
    verdicts = {v.claim: (scale, v) for each in results.values() for scale, v in best(each)}
    lines = [f"Of {len(outcomes)} claims {counts}.", ""]
    lines += [
        f"With seed {again.seed} *{cell(v.claim)}* came out otherwise: {v.outcome}, {v.ours} "
        f"(± {v.error}).\n"
        for each in repeats.values()
        for again in each
        for v in again.verdicts
        if v.claim in verdicts and verdicts[v.claim][1].outcome != v.outcome
    ]
    lines.append(SHOULD_HAVE_SAID)
    for question, claims in HEADLINES.items():
        headlines = [(*verdicts[claim], claim) for claim in claims if claim in verdicts]
        rows = [
            [claim, f"{v.ours} (± {v.error})", f"**{v.outcome}**", scale]
            for scale, v, claim in headlines
        ]
        if rows:
            heads = ["claim", "ours (± error)", "outcome", "scale"]
            lines += [f"**{question}**", "", *markdown_table(heads, rows)]
    return [*lines, MADE]


def section(name: str, results: Mapping[str, Result]) -> list[str]:
    """One experiment: its claims, and what made the numbers."""
    rows = [
        [v.claim, v.paper, f"{v.ours} (± {v.error})", f"**{v.outcome}**", scale]
        for scale, v in best(results)
    ]
    lines = [f"## {TITLES[name]}", ""]
    lines += markdown_table(["claim", "paper", "ours (± error)", "outcome", "scale"], rows)
    files = ", ".join(f"`results/{result.stem}.json`" for result in results.values())
    return [*lines, f"`python -m studies.sa_sgld {name}`; {files}.", ""]


def page(
    results: Mapping[str, Mapping[str, Result]], repeats: Mapping[str, Sequence[Result]]
) -> str:
    """The whole page.

    Args:
      results: by experiment and scale.
      repeats: those of other seeds, by experiment.

    Returns:
      Markdown.
    """
    lines = [HEAD, *overview(results, repeats)]
    for name, scales in results.items():
        lines += section(name, scales)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    results = HERE / "results"
    (HERE / "README.md").write_text(page(load(results), load_repeats(results)))


if __name__ == "__main__":
    main()
