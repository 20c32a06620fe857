"""What a run on disk costs: time per step against memory, syncing, and peak memory.

    python -m studies.speed.storage --data DIRECTORY

The network is 784-400-400-10 at batch 100, every 100th position kept. Less than 5% of the step is
asked for, with progress lines and the log; less than 1% of the run for syncing; and ten times the
draws in the same memory. Syncing is counted where it happens: the time the run waits while some
fsync is under way, and the processor time of every fsync, which a thread takes from the computing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import jax

import sundman
from sundman import models
from sundman.store import array_writer

SIZES = [784, 400, 400, 10]
LONG_RUNS = 3


def network(directory: str | None) -> tuple[sundman.Posterior, dict]:
    split = sundman.data.mnist(directory).train
    posterior = sundman.Posterior(models.mlp_apply, data=tuple(split))
    init = models.mlp_init(jax.random.key(0), SIZES)
    return posterior, {"init": init, "key": jax.random.key(1), "batch_size": 100}


class Span(NamedTuple):
    """A stretch of time, and the processor time its thread spent in it."""

    begin: float
    end: float
    cpu: float


class DiskTimes:
    """When files are synced, by any thread, and when the thread of the run waits for another one.

    It makes the arrays of a new run while a thread syncs its data: that is no waiting.
    """

    def __init__(self) -> None:
        self.waits: list[Span] = []
        self.syncs: list[Span] = []
        self._waits_count = True
        os.fsync = self._timed(os.fsync, self.syncs)
        Future.result = self._timed(Future.result, self.waits)
        make_arrays = array_writer.create

        def make(*arguments, **options) -> object:
            self._waits_count = False
            try:
                return make_arrays(*arguments, **options)
            finally:
                self._waits_count = True

        array_writer.create = make

    def _timed(self, function: Callable, spans: list[Span]) -> Callable:
        def call(*arguments, **options) -> object:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return function(*arguments, **options)
            finally:
                span = Span(began, time.perf_counter(), time.thread_time() - cpu)
                if spans is self.syncs:
                    spans.append(span)
                if self._waits_count and threading.current_thread() is threading.main_thread():
                    self.waits.append(span)

        return call

    def clear(self) -> None:
        """Forget the run before."""
        self.waits.clear()
        self.syncs.clear()

    def cost(self, seconds: float) -> dict:
        """Of a run that took ``seconds``."""
        syncing = _union(self.syncs)
        waited = sum(
            max(0.0, min(wait_end, end) - max(wait_begin, begin))
            for wait_begin, wait_end in _union(self.waits)
            for begin, end in syncing
        )
        cpu = sum(sync.cpu for sync in self.syncs)
        return {
            "seconds": seconds,
            "fsyncs": len(self.syncs),
            "syncing": sum(end - begin for begin, end in syncing),
            "waited": waited,
            "cpu": cpu,
            "cost_over_run": (waited + cpu) / seconds,
        }


def _union(spans: list[Span]) -> list[tuple[float, float]]:
    """Stretches in which there is at least one of the spans."""
    stretches: list[tuple[float, float]] = []
    for begin, end, _ in sorted(spans):
        if stretches and begin <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((begin, end))
    return stretches


def compare(times: DiskTimes, directory: str | None, steps: int, rounds: int, long: int) -> dict:
    """Time per step in memory and on disk, start-up left out; syncing in runs of two lengths."""
    posterior, rest = network(directory)
    sampler = sundman.sgld(posterior.time_step(0.01, kinetic=False))

    def run(steps: int, store: Path | None = None) -> float:
        times.clear()
        draws = sundman.sample(
            posterior, sampler, steps=steps, thin=100, store=store, progress=False, **rest
        )
        return draws.settings["seconds"]

    def on_disk(steps: int) -> dict:
        with tempfile.TemporaryDirectory() as temporary:
            return times.cost(run(steps, Path(temporary) / "run"))

    run(steps)
    pairs, short = [], []
    for number in range(rounds):
        if number % 2:
            short.append(on_disk(steps))
            pairs.append((run(steps), short[-1]["seconds"]))
        else:
            memory = run(steps)
            short.append(on_disk(steps))
            pairs.append((memory, short[-1]["seconds"]))
    ratios = [disk / memory for memory, disk in pairs]
    return {
        "steps": steps,
        "rounds": rounds,
        "memory_ms": 1e3 / steps * statistics.median(memory for memory, _ in pairs),
        "disk_ms": 1e3 / steps * statistics.median(disk for _, disk in pairs),
        "ratio": statistics.median(ratios),
        "ratio_error": statistics.stdev(ratios) / len(ratios) ** 0.5,
        "ratio_range": [min(ratios), max(ratios)],
        "syncing": {
            f"{steps} steps": short,
            f"{long} steps": [on_disk(long) for _ in range(LONG_RUNS)],
        },
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
    parser.add_argument("--long", type=int, default=25_000)
    parser.add_argument("--peak", nargs=2, default=None, help=argparse.SUPPRESS)
    default = Path(__file__).parent / "results" / "storage.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    if options.peak:
        run_for_peak(options.peak[0], int(options.peak[1]), options.data)
        return
    times, steps, long = DiskTimes(), options.steps, options.long
    row = compare(times, options.data, steps, options.rounds, long)
    results: dict = {"mnist 784-400-400-10, thin 100": row}
    print(
        f"memory {row['memory_ms']:.3f} ms  disk {row['disk_ms']:.3f} ms  ratio "
        f"{row['ratio']:.3f} ({row['ratio_range'][0]:.3f}-{row['ratio_range'][1]:.3f})"
    )
    for name, runs in row["syncing"].items():
        costs = [100 * one["cost_over_run"] for one in runs]
        print(
            f"syncing, {name}: {statistics.median(costs):.2f}% of the run ({min(costs):.2f}-"
            f"{max(costs):.2f}, {len(costs)} runs of {runs[0]['seconds']:.0f} s, "
            f"{runs[0]['fsyncs']} fsyncs)"
        )
    for kind, draws in (("network", 150), ("star", 5_000_000)):
        few, many = (peak(kind, n, options.data) for n in (draws, 10 * draws))
        results[f"peak MB, {kind}"] = {f"{draws} draws": few, f"{10 * draws} draws": many}
        print(f"{kind}: peak {few:.0f} MB with {draws} draws, {many:.0f} MB with {10 * draws}")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
