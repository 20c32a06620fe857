"""A data set larger than the memory that a run may have, streamed from a memory-mapped file.

    python -m studies.speed.memmap --directory DIR

writes 4 GB of rows to DIR, and then samples a network on them in a process that may have 1.5 GB of
data (``RLIMIT_DATA``, which counts all memory but the pages of mapped files). First it makes one
pass over all rows, shuffled one by one, and looks at its resident memory, the pages of the file
included. Then the step is measured against that of data in memory, in turn and in the same process,
with the file in the system's cache and with its pages dropped before each turn, so that it comes
from the disk. The data in memory are a quarter of the rows, more than any cache of a processor
holds. At most 1.1 times the in-memory step is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np

import sundman
from studies import timing as common

ROWS, FEATURES, CLASSES = 1_280_000, 784, 10
LIMIT = 1_500_000_000


def write(directory: Path) -> None:
    """The file, unless it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "y.npy").exists():
        return
    generator = np.random.default_rng(0)
    x = np.lib.format.open_memmap(directory / "x.npy", "w+", np.float32, (ROWS, FEATURES))
    block = generator.normal(size=(20_000, FEATURES)).astype(np.float32)
    for begin in range(0, ROWS, len(block)):  # which rows they are does not matter here
        x[begin : begin + len(block)] = block
    x.flush()
    np.save(directory / "y.npy", generator.integers(0, CLASSES, ROWS).astype(np.int32))


def drop_from_cache(file: Path) -> None:
    """Let the system forget the pages of a file that nobody has mapped."""
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def bytes_read() -> int:
    """What this process has had read from disks."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


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


class Runs:
    """Runs of one network on the file, and on a part of it in memory."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.directory, self.batch = options.directory, options.batch
        self.consecutive = options.consecutive
        self.init = sundman.models.mlp_init(jax.random.key(0), [FEATURES, *options.widths, CLASSES])

    def _arrays(self) -> tuple[np.ndarray, np.ndarray]:
        x, y = (np.load(self.directory / f"{name}.npy", mmap_mode="r") for name in "xy")
        return x, y

    def mapped(self) -> sundman.Posterior:
        """The posterior of the file."""
        more = {"batch_size": self.batch, "consecutive": self.consecutive}
        return self._posterior(sundman.data.ArrayBatches(*self._arrays(), **more))

    def in_memory(self) -> sundman.Posterior:
        """That of a quarter of its rows."""
        x, y = (np.array(array[: ROWS // 4]) for array in self._arrays())
        return self._posterior((x, y))

    def _posterior(self, data: object) -> sundman.Posterior:
        return sundman.Posterior(sundman.models.mlp_apply, data=data)  # type: ignore[arg-type]

    def seconds(self, target: sundman.Posterior, steps: int) -> float:
        """What so many steps take."""
        sampler = sundman.sgld(1e-3 / ROWS)
        more = {} if target.host is not None else {"batch_size": self.batch}
        began = time.perf_counter()
        sundman.sample(
            target, sampler, init=self.init, key=jax.random.key(1), steps=steps, thin=50,
            collect=nothing, stats=(), progress=False, **more,
        )  # fmt: skip
        return time.perf_counter() - began


def one_pass(options: argparse.Namespace) -> dict[str, object]:
    """A pass over the file within the limit."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    peak = Peak()
    runs = Runs(options)
    seconds = runs.seconds(runs.mapped(), ROWS // options.batch)
    return {
        "bytes of the file": 4 * ROWS * FEATURES,
        "limit": LIMIT,
        "peak of resident memory": peak.whole,
        "peak without pages of files": peak.anonymous,
        "seconds": seconds,
        "steps": ROWS // options.batch,
    }


def in_turn(options: argparse.Namespace) -> dict[str, object]:
    """Steps on the file against those in memory."""
    runs, steps = Runs(options), options.steps
    in_memory, mapped = runs.in_memory(), runs.mapped()
    cpu: dict[str, list[float]] = {"memory": [], "cache": [], "disk": []}
    read: dict[str, list[int]] = {"memory": [], "cache": [], "disk": []}

    def case(name: str) -> common.Case:
        def turn(_: int) -> float:
            target = in_memory if name == "memory" else mapped
            if name == "disk":
                drop_from_cache(options.directory / "x.npy")
            before, spent = bytes_read(), time.process_time()
            seconds = runs.seconds(target, steps)
            cpu[name].append((time.process_time() - spent) / steps)
            read[name].append(bytes_read() - before)
            return seconds

        return common.Case(turn, steps)

    times, others = common.measure({name: case(name) for name in cpu}, options.rounds)
    needed = 4 * FEATURES * options.batch * steps
    result: dict[str, object] = {
        name: {
            "ratio": common.summary(times[name] / times["memory"]),
            "ratio of CPU time": common.summary(np.array(cpu[name][1:]) / cpu["memory"][1:]),
            "bytes from the disk for one needed": float(np.median(read[name][1:]) / needed),
        }
        for name in ("cache", "disk")
    }
    return result | {
        "seconds of a step": {name: float(np.median(times[name])) for name in cpu},
        "CPU seconds of a step": {name: float(np.median(cpu[name][1:])) for name in cpu},
        "rounds": options.rounds,
        "steps": steps,
        "cores that others used": others,
    }


def nothing(position: object) -> np.float32:
    """Keep no number of a network."""
    return np.float32(0.0)


def main() -> None:
    parser = common.arguments(__doc__ or "", "memmap", rounds=8)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--widths", type=int, nargs="+", default=[400, 400], help="hidden layers")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--consecutive", type=int, default=1)
    parser.add_argument("--part", choices=list(PARTS), nargs="+", default=list(PARTS))
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(PARTS[options.part[0]](options)), flush=True)
        return
    common.keep_to(options.cores)
    write(options.directory)
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    name = f"{'-'.join(map(str, options.widths))}, batch {options.batch}"
    name += f", {options.consecutive} rows together" if options.consecutive > 1 else ""
    name += f", on {options.cores} core" if options.cores else ""
    for part in options.part:
        command = [sys.executable, "-W", "ignore", *sys.argv, "--child", "--part", part]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        result = json.loads(said.splitlines()[-1])
        print(part, json.dumps(result, indent=1), flush=True)
        results.setdefault(name, {})[part] = result
        options.output.write_text(json.dumps(results, indent=1) + "\n")


PARTS = {"pass": one_pass, "steps": in_turn}

if __name__ == "__main__":
    main()
