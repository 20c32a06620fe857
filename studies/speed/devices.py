"""What several devices and processes cost, and the constants of the model of a step.

    python -m studies.speed.devices

Three measurements, all on the cores that there are:

- the CPU time of a run on a mesh of one device against that of the same run without a mesh, in
  turn; at most 1.03 is asked for;
- the CPU time per chain and step of 1, 2 and 4 processes that do one run together, each with as
  many chains, for a short and a long run: since they share the cores, what grows is overhead, and
  CPU time does not count the work of others;
- the constants of step = compute + all-reduce + noise: CPU seconds for an operation of the gradient
  and for a parameter's noise and update (a fit to several batch sizes), and seconds for a word to
  the other processes and for each of its bytes (a fit to several lengths, on loopback).
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh

import sundman
from studies import timing as common
from sundman import models, targets
from sundman.run import hosts

SIZES = (784, 200, 200, 10)
CHAINS, STEPS = 40, 20_000  # of a toy, for each process
LONGER = 10  # times as many steps
LENGTHS = (1, 2**18, 2**20, 2**22)  # bytes of a gather
_generator = np.random.default_rng(0)
X = _generator.normal(size=(2_000, 784)).astype(np.float32)
Y = _generator.integers(0, 10, 2_000).astype(np.int32)


def nothing(position: object) -> np.float32:
    """Keep no number of a network."""
    return np.float32(0.0)


def toy(chains: int, steps: int, mesh: Mesh | None) -> None:
    """Chains on the star."""
    sampler = sundman.sa_sgld(1e-3, alpha=25.0, m=0.1, M=10.0, r=0.5)
    sundman.sample(
        targets.star(), sampler, key=jax.random.key(0), chains=chains, steps=steps, thin=20,
        mesh=mesh, progress=False,
    )  # fmt: skip


def network(batch: int, steps: int, mesh: Mesh | None) -> None:
    """A chain of a network of 199,210 parameters."""
    posterior = sundman.Posterior(models.mlp_apply, data=(X, Y))
    sampler = sundman.sgld(posterior.time_step(1e-3, kinetic=False))
    init = models.mlp_init(jax.random.key(0), SIZES)
    sundman.sample(
        posterior, sampler, key=jax.random.key(1), init=init, steps=steps, thin=steps // 4,
        batch_size=batch, collect=nothing, stats=(), mesh=mesh, progress=False,
    )  # fmt: skip


def cpu_seconds(run: Callable[[Mesh | None], None], mesh: Mesh | None) -> float:
    """The CPU time of a run, of which others on the machine take nothing."""
    began = time.process_time()
    run(mesh)
    return time.process_time() - began


def overhead(rounds: int) -> dict[str, object]:
    """Ratios of times with a mesh of one device to those without."""
    one = Mesh(np.array(jax.devices()[:1]), ("chain",))
    ratios = {}
    for name, run in {
        "toy, 40 chains": lambda mesh: toy(CHAINS, 4 * STEPS, mesh),
        "network, 1 chain": lambda mesh: network(100, 240, mesh),
    }.items():
        cases = {
            "mesh": common.Case(lambda _, run=run: cpu_seconds(run, one), 1),
            "none": common.Case(lambda _, run=run: cpu_seconds(run, None), 1),
        }
        times = common.measure(cases, rounds).times
        ratios[name] = {
            **common.summary(times["mesh"] / times["none"]),
            "seconds": float(np.median(times["none"])),
        }
        print(name, ratios[name], flush=True)
    return ratios


def constants(rounds: int) -> dict[str, float]:
    """CPU seconds for an operation of a network's gradient, and for the noise of a parameter."""
    parameters = sum(
        leaf.size for leaf in jax.tree.leaves(models.mlp_init(jax.random.key(0), SIZES))
    )
    batches, short, long = (10, 50, 100, 200), 120, 600
    cases = {
        f"{batch} {steps}": common.Case(
            lambda _, b=batch, n=steps: cpu_seconds(lambda mesh: network(b, n, mesh), None), 1
        )
        for batch in batches
        for steps in (short, long)
    }
    times = common.measure(cases, rounds).times
    medians = [  # of what more steps take, so that tracing does not count
        statistics.median(times[f"{batch} {long}"] - times[f"{batch} {short}"]) / (long - short)
        for batch in batches
    ]
    operations = [6.0 * batch * parameters for batch in batches]
    slope, rest = np.polyfit(operations, medians, 1)
    return {
        "parameters": parameters,
        "seconds_per_operation": float(slope),
        "operations_per_second": float(1 / slope),
        "noise_and_update_seconds_per_parameter": float(rest / parameters),
        **{f"step_seconds_batch_{b}": float(m) for b, m in zip(batches, medians, strict=True)},
    }


def child(number: int, process: int, address: str) -> None:
    """One of several processes: CPU seconds of a run, and seconds of words to the others."""
    if number > 1:
        hosts.connect(address, number, process, timeout=300)
    result = {}
    for name, steps in {"short": STEPS, "long": LONGER * STEPS}.items():
        toy(CHAINS * number, steps, None)
        result[name] = cpu_seconds(lambda mesh, n=steps: toy(CHAINS * number, n, mesh), None)
    for length in LENGTHS:
        word, taken = np.zeros(length, np.uint8), []
        for _ in range(6):
            hosts.highest(0)
            began = time.perf_counter()
            hosts.gather(word)
            taken.append(time.perf_counter() - began)
        result[f"gather {length}"] = statistics.median(taken[1:])
    print(json.dumps(result), flush=True)


def together(number: int) -> list[dict[str, float]]:
    """What the processes of one run measured."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    command = [sys.executable, "-W", "ignore", __file__, "--child"]
    children = [
        subprocess.Popen(
            [*command, str(number), str(process), address], stdout=subprocess.PIPE, text=True
        )
        for process in range(number)
    ]
    said = [child.communicate()[0].splitlines()[-1] for child in children]
    return [json.loads(line) for line in said]


def weak_scaling(rounds: int) -> dict[str, object]:
    """CPU seconds per chain and step relative to one process, and the cost of a word to others."""
    spent: dict[int, dict[str, list[float]]] = {1: {}, 2: {}, 4: {}}
    words: dict[int, dict[int, list[float]]] = {2: {}, 4: {}}
    for _ in range(rounds):
        for number, cpu in spent.items():
            results = together(number)
            for name in ("short", "long"):
                mean = sum(result[name] for result in results) / number
                cpu.setdefault(name, []).append(mean)
            for length in LENGTHS if number > 1 else ():
                took = max(result[f"gather {length}"] for result in results)
                words[number].setdefault(length, []).append(took)
    table: dict[str, object] = {}
    for number, cpu in spent.items():
        for name, steps in {"short": STEPS, "long": LONGER * STEPS}.items():
            own, one = np.array(cpu[name]), np.array(spent[1][name])
            table[f"{number}, {name}"] = {
                "ns_per_chain_step": 1e9 * float(np.median(own)) / (CHAINS * steps),
                "ratio": common.summary(own / one),
                "more_seconds": common.summary(own - one),
            }
            print(number, name, table[f"{number}, {name}"], flush=True)
    for number, by_length in words.items():
        medians = {length: statistics.median(times) for length, times in by_length.items()}
        per_byte, latency = np.polyfit(list(medians), list(medians.values()), 1)
        table[f"gather of {number}"] = {
            "seconds": {str(length): value for length, value in medians.items()},
            "latency": float(latency),
            "seconds_per_byte": float(per_byte),
        }
        print(number, table[f"gather of {number}"], flush=True)
    return table


def main() -> None:
    if "--child" in sys.argv:
        number, process, address = sys.argv[-3:]
        child(int(number), int(process), address)
        return
    parts = {"overhead": overhead, "model": constants, "processes": weak_scaling}
    parser = common.arguments(__doc__ or "", "devices", rounds=6)
    parser.add_argument("--parts", nargs="*", choices=list(parts), default=list(parts))
    options = parser.parse_args()
    common.keep_to(options.cores)
    results = json.loads(options.output.read_text()) if options.output.exists() else {}
    results |= {"cores": len(os.sched_getaffinity(0)), "jax": jax.__version__}
    for name in options.parts:
        results[name] = {"rounds": options.rounds, **parts[name](options.rounds)}
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
