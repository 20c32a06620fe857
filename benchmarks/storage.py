"""What a run on disk costs: time per step against memory, interleaved; and peak memory.

    python benchmarks/storage.py --data DIRECTORY

The network is 784-400-400-10 at batch 100, every 100th position kept. Less than 5% of the step is
asked for, with progress lines and the log; and ten times the draws in the same memory.
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
from collections.abc import Callable
from pathlib import Path

import jax

import sundman
from sundman import models
from sundman.run import disk_sink as stored

SIZES = [784, 400, 400, 10]


def network(directory: str | None) -> tuple[sundman.Posterior, dict]:
    split = sundman.data.mnist(directory).train
    posterior = sundman.Posterior(models.mlp_apply, data=tuple(split))
    init = models.mlp_init(jax.random.key(0), SIZES)
    return posterior, {"init": init, "key": jax.random.key(1), "batch_size": 100}


def compare(directory: str | None, steps: int, rounds: int) -> dict:
    """Medians of the time per step of a run, start-up left out, and of the per-round ratio."""
    posterior, rest = network(directory)
    sampler = sundman.sgld(posterior.time_step(0.01, kinetic=False))

    writing, syncing = [0.0], [0.0]

    def timed(function: Callable, seconds: list[float]) -> Callable:
        def call(*arguments, **options) -> object:
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                seconds[0] += time.perf_counter() - began

        return call

    # writing happens here and nowhere else
    stored.DiskSink.after_piece = timed(stored.DiskSink.after_piece, writing)
    os.fsync = timed(os.fsync, syncing)
    shares, synced = [], []

    def run(store: Path | None) -> float:
        writing[0] = syncing[0] = 0.0
        draws = sundman.sample(
            posterior, sampler, steps=steps, thin=100, store=store, progress=False, **rest
        )
        seconds = draws.settings["seconds"]
        if store is not None:
            shares.append(writing[0] / (seconds - writing[0]))
            synced.append(syncing[0] / seconds)
        return seconds / steps

    run(None)
    pairs = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as temporary:
            there = Path(temporary) / "run"
            if number % 2:
                disk = run(there)
                pairs.append((run(None), disk))
            else:
                pairs.append((run(None), run(there)))
    ratios = [disk / memory for memory, disk in pairs]
    return {
        "steps": steps,
        "rounds": rounds,
        "memory_ms": 1e3 * statistics.median(memory for memory, _ in pairs),
        "disk_ms": 1e3 * statistics.median(disk for _, disk in pairs),
        "ratio": statistics.median(ratios),
        "ratio_error": statistics.stdev(ratios) / len(ratios) ** 0.5,
        "ratio_range": [min(ratios), max(ratios)],
        "writing_over_computing": statistics.median(shares),
        "writing_over_computing_range": [min(shares), max(shares)],
        "fsync_over_run": statistics.median(synced),
        "fsync_over_run_range": [min(synced), max(synced)],
    }


def peak(kind: str, draws: int, directory: str | None) -> float:
    """Peak memory in MB of a process that makes a run on disk."""
    command = [sys.executable, __file__, "--peak", kind, str(draws)]
    if directory:
        command += ["--data", directory]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def run_for_peak(kind: str, draws: int, directory: str | None) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(temporary) / "run"
        if kind == "network":
            posterior, rest = network(directory)
            sampler = sundman.sgld(posterior.time_step(0.01, kinetic=False))
            sundman.sample(
                posterior, sampler, draws=draws, thin=2, store=store, progress=False, **rest
            )
        else:
            star, sampler = sundman.targets.star(), sundman.sgld(1e-4)
            sundman.sample(
                star, sampler, draws=draws, key=jax.random.key(0), store=store, progress=False
            )
    status = Path("/proc/self/status").read_text()  # Linux; ru_maxrss would count the parent's
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--peak", nargs=2, default=None, help=argparse.SUPPRESS)
    default = Path(__file__).parent / "results" / "storage.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    if options.peak:
        run_for_peak(options.peak[0], int(options.peak[1]), options.data)
        return
    results: dict = {
        "mnist 784-400-400-10, thin 100": compare(options.data, options.steps, options.rounds)
    }
    row = next(iter(results.values()))
    print(
        f"memory {row['memory_ms']:.3f} ms  disk {row['disk_ms']:.3f} ms  ratio "
        f"{row['ratio']:.3f} ({row['ratio_range'][0]:.3f}-{row['ratio_range'][1]:.3f}), "
        f"writing / computing {row['writing_over_computing']:.4f}, of a run in fsync "
        f"{row['fsync_over_run']:.4f} (at most {row['fsync_over_run_range'][1]:.4f})"
    )
    for kind, draws in (("network", 150), ("star", 5_000_000)):
        few, many = (peak(kind, n, options.data) for n in (draws, 10 * draws))
        results[f"peak MB, {kind}"] = {f"{draws} draws": few, f"{10 * draws} draws": many}
        print(f"{kind}: peak {few:.0f} MB with {draws} draws, {many:.0f} MB with {10 * draws}")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
