"""What the table's runs say about the table's claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sundman.paper.measured import Measured, all_of, equal, error_text, less, over_seeds
from sundman.paper.paper import BEST, TABLE
from sundman.paper.scales import NetworkBudget
from sundman.paper.units import Numbers
from sundman.report.model import Table, Verdict

Rows = Mapping[str, Mapping[int, Numbers]]
_METRICS = {"nll": ("nll", 1.0), "accuracy": ("accuracy", 100.0), "ece": ("ece15", 100.0)}


def scores_of(units: Mapping[int, Numbers], kind: str, metric: str) -> dict[int, float]:
    """One score of each seed, in the table's units."""
    name, factor = _METRICS[metric]
    return {s: factor * unit[kind][name] for s, unit in units.items() if unit[kind] is not None}


def paired(rows: Rows, one: tuple[str, str], other: tuple[str, str], metric: str) -> Measured:
    """Mean over the seeds that both have of (one - other)."""
    a, b = (scores_of(rows[row], kind, metric) for row, kind in (one, other))
    return over_seeds([a[seed] - b[seed] for seed in a if seed in b])


def _joined(parts: Sequence[str]) -> str:
    """One text if all say the same, which is that there is nothing to say."""
    return parts[0] if len(set(parts)) == 1 else " / ".join(parts)


def _size(budget: NetworkBudget, scale: str) -> str:
    return (
        f"Width {budget.width}, {budget.epochs} epochs, burn-in {budget.burn_in}, up to "
        f"{budget.seeds} seeds (scale {scale})."
    )


def judge(rows: Rows, budget: NetworkBudget, scale: str) -> list[Verdict]:
    """One verdict for each row of the table, for each comparison, and for the weights."""
    verdicts = [row_verdict(rows, row, budget, scale) for row in TABLE]
    for prior in ("gaussian", "horseshoe"):
        verdicts += [comparison(rows, prior, kind, budget, scale) for kind in ("matched", "best")]
    return [*verdicts, *(weights(rows, prior, budget, scale) for prior in BEST)]


def row_verdict(rows: Rows, row: str, budget: NetworkBudget, scale: str) -> Verdict:
    """Are our NLL, accuracy and ECE those of the paper's row? Only at the paper's setting."""
    ours = row.replace("/sgld", "/sgld-matched")
    kind = "unweighted" if row.endswith("sa-sgld") else "weighted"
    texts, errors, outcomes = [], [], []
    for metric, (value, half) in TABLE[row].items():
        found = over_seeds(list(scores_of(rows[ours], kind, metric).values()))
        published = Measured(value, half / 2.776, 2.776)
        outcomes.append(equal(found - published))
        texts.append(found.text())
        errors.append(error_text(found))
    exact = scale == "paper"
    note = "Equal if |ours - theirs| is within the joined 95% intervals, metric by metric. "
    if not exact:
        note += "Not comparable: the paper's network is 1200 wide and runs for 200 epochs. "
    return Verdict(
        claim=f"Table, {row}: NLL / accuracy % / ECE %",
        paper=" / ".join(f"{value}±{half}" for value, half in TABLE[row].values()),
        ours=_joined(texts),
        error=_joined(errors),
        outcome=all_of(outcomes) if exact else "not tested",
        note=note + _size(budget, scale),
    )


def comparison(rows: Rows, prior: str, kind: str, budget: NetworkBudget, scale: str) -> Verdict:
    """Gaussian: no difference is claimed. Horseshoe: a lower NLL is."""
    one, other = (f"{prior}/sa-sgld", "unweighted"), (f"{prior}/sgld-{kind}", "weighted")
    found = {metric: paired(rows, one, other, metric) for metric in _METRICS}
    published = {
        m: TABLE[f"{prior}/sa-sgld"][m][0] - TABLE[f"{prior}/sgld"][m][0] for m in _METRICS
    }
    step = "at the same mean step" if kind == "matched" else f"at its best step {BEST[prior]['h']}"
    better = prior == "horseshoe"
    nll = found["nll"]
    outcome = less(nll, published["nll"]) if better else equal(nll)
    rule = (
        "Judged by the NLL: lower by more than half of the 95% interval over seeds (paired)."
        if better
        else "Judged by the NLL: no difference beyond the 95% interval over seeds (paired)."
    )
    return Verdict(
        claim=f"Under the {prior} prior SA-SGLD is {'better than' if better else 'equal to'} "
        f"SGLD {step}{'' if kind == 'matched' else ' (our comparison)'}",
        paper=" / ".join(f"{published[m]:+.3g}" for m in _METRICS)
        + (" (SGLD's step is not given)" if kind == "matched" else " (no best step compared)"),
        ours=_joined([found[m].text(sign=True) for m in _METRICS]),
        error=_joined([error_text(found[m]) for m in _METRICS]),
        outcome=outcome,
        note=f"Differences of NLL / accuracy / ECE (percent). {rule} {_size(budget, scale)}",
    )


def weights(rows: Rows, prior: str, budget: NetworkBudget, scale: str) -> Verdict:
    """The table's averages are unweighted: does it matter?"""
    row = f"{prior}/sa-sgld"
    found = paired(rows, (row, "unweighted"), (row, "weighted"), "nll")
    small = abs(found.value) + found.half < 0.001
    outcome = "not tested" if not rows[row] else ("reproduces" if small else equal(found))
    return Verdict(
        claim=f"Averages of networks need no weights ({prior} prior)",
        paper="averages unweighted",
        ours=f"NLL differs by {found.text(sign=True)}",
        error=error_text(found),
        outcome=outcome,
        note="Reproduces if the NLL moves by less than .001, the table's last digit. The theory "
        f"needs the weights; dt hardly varies here. {_size(budget, scale)}",
    )


def tabulate(rows: Rows, summaries: Mapping[str, Mapping[str, Measured]]) -> Table:
    """Rows beside the paper's."""
    lines: list[list[str]] = []
    for name, scores in summaries.items():
        row = name.split(",")[0]
        units = list(rows[row].values())
        key = row.replace("-matched", "")
        if key in TABLE:
            paper = " / ".join(f"{v}±{half}" for v, half in TABLE[key].values())
        else:
            best: Mapping[str, Any] = BEST[row.split("/")[0]]
            paper = f"{best['nll']} / {best['accuracy']} / {best['ece']} (earlier work)"
        step = over_seeds([unit["mean_step"] for unit in units if unit["mean_step"] is not None])
        lines.append(
            [
                name,
                f"{step.value:.4f}",
                str(len(units)),
                *(
                    scores[m].text() + (f" ± {scores[m].half:.2g}" if len(units) > 1 else "")
                    for m in ("nll", "accuracy", "ece15", "ece30")
                ),
                paper,
            ]
        )
    return Table(
        title="MNIST: mean and 95% t-interval over seeds",
        columns=[
            "row",
            "mean step h",
            "seeds",
            "NLL",
            "accuracy %",
            "ECE % (15)",
            "ECE % (30)",
            "paper: NLL / accuracy / ECE",
        ],
        rows=lines,
    )
