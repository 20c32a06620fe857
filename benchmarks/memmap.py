"""A data set larger than the memory that a run may have, streamed from a memory-mapped file.

    python benchmarks/memmap.py --directory DIR

writes 4 GB of rows to DIR, and then samples a network on them in a process that may have 1.5 GB of
data (``RLIMIT_DATA``, which counts all memory but the pages of mapped files), one pass over all
rows. The pages of the file belong to the system's cache; they are given back after each batch, so
that the whole resident memory, these pages included, can be held against the same limit. Beside its
peak the step is measured against that of data in memory, in turn and in the same process; those are
a twentieth of the rows, and a step does not depend on their number. At most 1.1 times the in-memory
step is asked for.
"""

from __future__ import annotations

import argparse
import json
import mmap
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROWS, FEATURES, CLASSES, BATCH = 1_000_000, 1_000, 10, 200
LIMIT = 1_500_000_000


class Batches(Sequence):
    """The batches of a memory-mapped file, by number."""

    def __init__(self, directory: Path, rows: int) -> None:
        self.x = np.load(directory / "x.npy", mmap_mode="r")
        self.y = np.load(directory / "y.npy", mmap_mode="r")
        self.rows = rows
        self._mapped: mmap.mmap = self.x._mmap  # type: ignore[attr-defined]

    def __len__(self) -> int:
        """Batches in a pass."""
        return self.rows // BATCH

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """One of them, read from the disk."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        rows = slice(number * BATCH, (number + 1) * BATCH)
        batch = np.array(self.x[rows]), np.array(self.y[rows])
        self._mapped.madvise(mmap.MADV_DONTNEED)
        return batch


def write(directory: Path) -> None:
    """The file, unless it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "y.npy").exists():
        return
    generator = np.random.default_rng(0)
    shape = (ROWS, FEATURES)
    x = np.lib.format.open_memmap(directory / "x.npy", "w+", np.float32, shape)
    y = generator.integers(0, CLASSES, ROWS).astype(np.int32)
    block = generator.normal(size=(20_000, FEATURES)).astype(np.float32)
    for begin in range(0, ROWS, len(block)):  # which rows they are does not matter here
        x[begin : begin + len(block)] = block
    x.flush()
    np.save(directory / "y.npy", y)


class Peak(threading.Thread):
    """The most resident memory of this process, looked at twenty times a second.

    Attributes:
      whole: all of it.
      anonymous: without the pages of files.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.whole = self.anonymous = 0
        self.start()

    def run(self) -> None:
        """Look again and again."""
        while True:
            lines = Path("/proc/self/status").read_text().splitlines()
            sizes = {line.split(":")[0]: line.split()[1] for line in lines if "kB" in line}
            self.whole = max(self.whole, 1024 * int(sizes["VmRSS"]))
            self.anonymous = max(self.anonymous, 1024 * int(sizes["RssAnon"]))
            time.sleep(0.05)


def sample(directory: Path, rounds: int, widths: list[int]) -> None:
    """The child: one pass over the file, then the two steps in turn."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    peak = Peak()
    import jax

    import sundman
    from sundman import models

    init = models.mlp_init(jax.random.key(0), [FEATURES, *widths, CLASSES])
    few = ROWS // 20
    y = np.load(directory / "y.npy")[:few]
    x = np.array(np.load(directory / "x.npy", mmap_mode="r")[:few])
    in_memory = sundman.Posterior(models.mlp_apply, data=(x, y))
    sampler = sundman.sgld(
        sundman.Posterior(models.mlp_apply, data=(x, y)).time_step(1e-3, kinetic=False)
    )
    del x

    def run(posterior: sundman.Posterior, steps: int, **more: int) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        sundman.sample(
            posterior, sampler, init=init, key=jax.random.key(1), steps=steps, thin=steps // 4,
            collect=nothing, stats=(), progress=False, **more,
        )  # fmt: skip
        return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps

    def mapped(rows: int) -> sundman.Posterior:
        batches = sundman.data.HostBatches(Batches(directory, rows), size=rows)
        return sundman.Posterior(models.mlp_apply, data=batches)

    whole, some = mapped(ROWS), mapped(few)
    run(some, few // BATCH), run(in_memory, few // BATCH, batch_size=BATCH)
    began = time.perf_counter()
    run(whole, ROWS // BATCH)
    seconds = time.perf_counter() - began
    times = [
        (run(whole, few // BATCH), run(in_memory, few // BATCH, batch_size=BATCH))
        for _ in range(rounds)
    ]
    wall = np.array([a[0] / b[0] for a, b in times])
    result = {
        "bytes of the file": 4 * ROWS * FEATURES,
        "limit": LIMIT,
        "peak of resident memory": peak.whole,
        "peak without pages of files": peak.anonymous,
        "seconds of the pass": seconds,
        "steps of the pass": ROWS // BATCH,
        "step in memory": float(np.median([b[0] for _, b in times])),
        "step of the file": float(np.median([a[0] for a, _ in times])),
        "ratio": float(np.median(wall)),
        "ratios": wall.tolist(),
        "ratio of CPU time": float(np.median([a[1] / b[1] for a, b in times])),
    }
    print(json.dumps(result), flush=True)


def nothing(position: object) -> np.float32:
    """Keep no number of a network."""
    return np.float32(0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--widths", type=int, nargs="+", default=[100], help="hidden layers")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    output = Path(__file__).parent / "results" / "memmap.json"
    parser.add_argument("--output", type=Path, default=output)
    options = parser.parse_args()
    if options.child:
        sample(options.directory, options.rounds, options.widths)
        return
    write(options.directory)
    command = [sys.executable, "-W", "ignore", __file__, "--child", "--rounds", str(options.rounds)]
    command += ["--directory", str(options.directory), "--widths", *map(str, options.widths)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result = json.loads(said.splitlines()[-1])
    print(json.dumps(result, indent=1))
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    results["-".join(map(str, options.widths))] = result
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
