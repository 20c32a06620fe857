"""What the tests of devices run: one device in their own process, eight virtual ones in another.

    python on_devices.py DIRECTORY [RUN ...]

does the runs on eight devices, all quick ones if none are named, and leaves the draws in the
directory.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np

import sundman
from sundman import models, targets
from sundman.run import devices, schedule
from tests.store.runs import Crash, Do, crash

KEY = jax.random.key(5)
_generator = np.random.default_rng(0)
X = _generator.normal(size=(40, 6)).astype(np.float32)
Y = _generator.integers(0, 3, 40).astype(np.int32)
INIT = models.mlp_init(jax.random.key(0), [6, 8, 3])
CLOCK = {"alpha": 1e3, "m": 0.5, "M": 2.0, "r": 0.25}


def star(chains, **more):
    sampler = sundman.sa_sgld(1e-3, alpha=1.0, m=0.1, M=2.0, r=0.5)
    run = {"chains": chains, "key": KEY, "steps": 200, "progress": False, **more}
    return sundman.sample(targets.star(), sampler, **run)


def network(chains=8, data=(X, Y), batch_size=20, **more):
    posterior = sundman.Posterior(models.mlp_apply, data=data)
    sampler = sundman.sa_sgld(posterior.time_step(0.01, kinetic=False), omega=1600.0, **CLOCK)
    run = {"chains": chains, "key": KEY, "steps": 20, "burn_in": 8, "thin": 2, "progress": False}
    return sundman.sample(posterior, sampler, init=INIT, batch_size=batch_size, **{**run, **more})


def streamed(**more):
    batches = [(X[i : i + 8], Y[i : i + 8]) for i in range(0, 40, 8)]
    return network(2, sundman.data.HostBatches(batches, size=40), None, **more)


def save(draws, path):
    leaves = jax.tree.leaves((draws.values, draws.weight, dict(draws.stats), draws.last))
    np.savez(path, *map(np.asarray, leaves))


class Hears(Do):
    """A watcher that keeps what it is told."""

    def __init__(self):
        super().__init__(None, None)
        self.heard = []

    def event(self, name, message, **fields):
        self.heard.append(f"{name}: {message}")


def placed(mesh):
    """Over which axes of a mesh the arrays of four chains are split, without and with theirs."""
    arrays = {"kernel": np.zeros((4, 6, 8)), "bias": np.zeros((4, 3))}
    return [
        {
            name: str(leaf.sharding.spec)
            for name, leaf in devices.Layout(4, mesh, inside).place(arrays).items()
        }
        for inside in (False, True)
    ]


def refusals(mesh):
    """What is said of meshes that do not fit."""
    calls = {
        "chains": lambda: star(6, mesh=mesh((4,), ("chain",))),
        "axis": lambda: star(8, mesh=mesh((4,), ("rows",))),
        "no rows": lambda: star(8, mesh=mesh((2, 4), ("chain", "data"))),
        "rows": lambda: network(mesh=mesh((2, 4), ("chain", "data")), batch_size=18),
        "all rows": lambda: network(mesh=mesh((3,), ("data",)), batch_size=None),
        "no mesh": lambda: network(mesh=4),
        "parameters": lambda: network(shard_parameters=True),
    }
    said = {}
    for name, call in calls.items():
        try:
            call()
        except (ValueError, TypeError) as error:
            said[name] = str(error)
    return said


def broken_off(piece, work, *arguments, **settings):
    """A run that is broken off after one of its pieces."""
    try:
        work(*arguments, watchers=[Do(piece, crash)], checkpoint_every=1, **settings)
    except Crash:
        return
    raise AssertionError("the run came to its end")


def resumed(store, meshes):
    """Broken off on each mesh but the last."""
    schedule._OPERATIONS = 5e4  # many short pieces
    broken_off(3, star, 8, store=store, mesh=meshes[0])
    for piece, mesh in zip((5, 7), meshes[1:-1], strict=True):
        broken_off(piece, sundman.resume, store, mesh=mesh, progress=False)
    return sundman.resume(store, mesh=meshes[-1], progress=False)


QUICK = (
    *("star-8 default", "star-8 on 4", "star-40 on 8"),
    *("network on 8", "network on 4", "network 2 by 4"),
)


def main(directory: Path, names: list[str]) -> None:
    def mesh(shape, axes=("chain", "data")):
        return jax.make_mesh(shape, axes, devices=jax.devices()[: int(np.prod(shape))])

    ear = Hears()
    runs = {
        "star-8 default": lambda: star(8, watchers=[ear]),
        "star-8 on 4": lambda: star(8, mesh=mesh((4,), ("chain",))),
        "star-40 on 8": lambda: star(40, mesh=mesh((8,), ("chain",))),
        "network on 8": lambda: network(mesh=mesh((8, 1))),
        "network on 4": lambda: network(mesh=mesh((4,), ("chain",))),
        "network 2 by 4": lambda: network(mesh=mesh((2, 4))),
        "streamed 2 by 4": lambda: streamed(mesh=mesh((2, 4))),
        "resumed on 2": lambda: resumed(
            directory / "resumed", [mesh((size, 1)) for size in (4, 8, 1, 2)]
        ),
        "split": lambda: network(mesh=mesh((4, 2)), shard_parameters=True),
    }
    settings = {}
    for name in names or QUICK:
        draws = runs[name]()
        save(draws, directory / f"{name}.npz")
        settings[name] = draws.settings["devices"]
    if names:
        return
    one = star(4, steps=10, mesh=mesh((1,), ("chain",)))
    store = directory / "store"
    star(8, store=store, steps=80, mesh=mesh((4,), ("chain",)))
    longer = sundman.extend(store, steps=120, mesh=mesh((2,), ("chain",)), progress=False)
    save(longer, directory / "longer.npz")
    settings["longer"] = longer.settings["devices"]
    said = {
        "settings": settings,
        "refusals": refusals(mesh),
        "devices": jax.device_count(),
        "events": ear.heard,
        "one": one.settings.get("devices"),
        "placed": placed(mesh((2, 2))),
    }
    (directory / "said.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
