"""Where the chains and the data of a run live: one device, or a mesh of them.

A mesh has the axes ``chain`` and ``data``. Along ``chain`` nothing is exchanged: every device runs
the program that one device would run, on its own chains, so the draws are the same to the last bit.
Along ``data`` the rows of a minibatch are split, and XLA adds up the gradients; that is another
order of summation. Which rows and which noise a step has depends on neither.

Until a run begins its state and its data are where JAX puts them; :meth:`Layout.place` and
:meth:`Layout.place_plan` put them on the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import jax
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from sundman._types import PyTree, Settings
from sundman.data.batches import DATA_AXIS
from sundman.posterior import Batch, Posterior
from sundman.run import hosts
from sundman.run.chain_mapping import draws_first, runs_sequentially
from sundman.run.inputs import posterior_of
from sundman.run.spec import RunSpec
from sundman.run.step import Plan, Record

CHAIN_AXIS = "chain"
_AXES = (CHAIN_AXIS, DATA_AXIS)
Tree = TypeVar("Tree")


@dataclass(frozen=True)
class Layout:
    """Where chains and data are.

    Attributes:
      chains: how many there are.
      mesh: with the axes ``chain`` and ``data``; None for one device.
      shard_parameters: whether each array of a chain is split over ``data``, too.
    """

    chains: int
    mesh: Mesh | None = None
    shard_parameters: bool = False

    @property
    def data_shards(self) -> int:
        """Over how many devices the rows of a minibatch are split."""
        return 1 if self.mesh is None else self.mesh.shape[DATA_AXIS]

    def __str__(self) -> str:
        """In words, for the log."""
        if self.mesh is None:
            return "one device"
        rows = f", minibatches over {self.data_shards}" if self.data_shards > 1 else ""
        inside = ", parameters as well" if self.shard_parameters else ""
        over = self.mesh.shape[CHAIN_AXIS]
        return f"{self.mesh.size} of {jax.device_count()} devices: chains over {over}{rows}{inside}"

    @property
    def settings(self) -> Settings:
        """What ``draws.settings`` says of it: nothing for one device."""
        return {} if self.mesh is None else {"devices": str(self)}

    def place(self, chains: Tree) -> Tree:
        """Arrays with a leading axis of chains, each chain where it runs."""
        mesh = self.mesh
        if mesh is None:
            return chains
        return jax.tree.map(lambda leaf: _put(leaf, NamedSharding(mesh, self._spec(leaf))), chains)

    def _spec(self, leaf: Array) -> PartitionSpec:
        """Chains over ``chain``; of a large array its longest axis over ``data``, if asked for."""
        inner = np.shape(leaf)[1:]
        if self.shard_parameters and inner and max(inner) % self.data_shards == 0:
            longest = int(np.argmax(inner))
            return PartitionSpec(CHAIN_AXIS, *[None] * longest, DATA_AXIS)
        return PartitionSpec(CHAIN_AXIS)

    def place_plan(self, plan: Plan, positions: PyTree) -> Plan:
        """The plan on every device; rows of data in memory are split over ``data`` if they can be.

        The chains run as they would all together on one device.
        """
        mesh = self.mesh
        if mesh is None:
            return plan
        everywhere = NamedSharding(mesh, PartitionSpec())
        by_rows = NamedSharding(mesh, PartitionSpec(DATA_AXIS))
        posterior = posterior_of(plan.gradient)
        data = posterior.data if isinstance(posterior, Posterior) else None
        split = set()
        if (
            isinstance(data, Batch)
            and posterior is not None
            and posterior.size % self.data_shards == 0
        ):
            split = {id(leaf) for leaf in jax.tree.leaves((data.x, data.y))}

        def put(leaf: Array) -> Array:
            return _put(leaf, by_rows if id(leaf) in split else everywhere)

        plan = plan.replace(side_by_side=not runs_sequentially(positions))
        return jax.tree.map(put, plan)

    def local_rows(self, rows: int) -> slice:
        """Those of the ``rows`` rows of a batch that this process has devices for."""
        if self.mesh is None:
            return slice(0, rows)
        by_rows = NamedSharding(self.mesh, PartitionSpec(DATA_AXIS))
        parts = by_rows.addressable_devices_indices_map((rows,)).values()
        spans = [part[0].indices(rows) for part in parts if part is not None]
        return slice(min(begin for begin, *_ in spans), max(end for _, end, _ in spans))

    def place_batches(self, batches: PyTree, rows: int) -> PyTree:
        """Host batches, stacked step by step, with their rows over ``data``.

        Args:
          batches: the :meth:`local_rows` of each.
          rows: how many each has in all.
        """
        if self.mesh is None:
            return batches
        by_rows = NamedSharding(self.mesh, PartitionSpec(None, DATA_AXIS))
        if by_rows.is_fully_addressable:
            return jax.device_put(batches, by_rows)
        first = self.local_rows(rows).start

        def put(leaf: np.ndarray) -> Array:
            def part(index: tuple[slice, ...] | None) -> np.ndarray:
                assert index is not None
                begin, end, _ = index[1].indices(rows)
                return leaf[:, begin - first : end - first]

            shape = (len(leaf), rows, *leaf.shape[2:])
            return jax.make_array_from_callback(shape, by_rows, part)

        return jax.tree.map(put, batches)

    def run(
        self,
        program: Callable[..., PyTree],
        plan: Plan,
        chains: tuple[PyTree, ...],
        others: tuple[PyTree, ...],
        *,
        records: bool = False,
        **static: Hashable,
    ) -> PyTree:
        """``program(plan, *chains, *others, **static)``, every device on its own chains.

        Args:
          program: a compiled loop of :mod:`sundman.run.scan`.
          plan: the loop's plan.
          chains: what has a leading axis of chains.
          others: what all chains share: numbers, and the batches of streamed data.
          records: whether the third of its results are records, which may have draws first.
          **static: the program's static arguments.

        Returns:
          What it returns.
        """
        if self.mesh is None:
            return program(plan, *chains, *others, **static)
        draws_first = records and not self._chains_first(plan, chains[0])
        sharded = _on_mesh(program, self.mesh, records, draws_first, tuple(static.items()))
        return sharded(plan, plan.sampler if plan.stacked else (), chains, others)

    def _chains_first(self, plan: Plan, chains: PyTree) -> bool:
        """Whether the records of a block have the axes (chain, draw), and not the others."""
        if self.mesh is None:
            return runs_sequentially(chains, plan.side_by_side)
        local = len(jax.tree.leaves(chains)[0]) // self.mesh.shape[CHAIN_AXIS]
        return local > 1 and not plan.side_by_side

    def draws_first(self, record: Record, plan: Plan, positions: PyTree) -> Record:
        """The records of a block on the host, with axes (draw, chain).

        Numbers, such as weights, are those of all chains; values of the :attr:`local` ones.
        """
        swap = self._chains_first(plan, positions)
        if self.mesh is not None and hosts.several():
            values = self.to_local(record.values, 0 if swap else 1)
            record = self.gather(record._replace(values=()))._replace(values=values)
        return draws_first(record, swap)

    def gather(self, chains: Tree) -> Tree:
        """Arrays of all chains on the host, in every process."""
        if self.mesh is not None and hosts.several():
            with hosts.talking():
                chains = jax.block_until_ready(_resharded(self.mesh, PartitionSpec())(chains))
            return jax.tree.map(lambda leaf: np.asarray(leaf.addressable_data(0)), chains)
        return jax.tree.map(np.asarray, chains)

    def gather_local(self, chains: Tree, axis: int) -> Tree:
        """Arrays of all chains in every process, from those that each has of :attr:`local`."""
        mesh = self.mesh
        if mesh is None or not hosts.several():
            return chains
        spec = PartitionSpec(*[None] * axis, CHAIN_AXIS)

        def whole(leaf: np.ndarray) -> Array:
            shape = (*leaf.shape[:axis], self.chains, *leaf.shape[axis + 1 :])

            def part(index: tuple[slice, ...] | None) -> np.ndarray:
                assert index is not None
                wanted = np.arange(self.chains)[index[axis]]
                return np.take(leaf, np.searchsorted(self.local, wanted), axis)

            return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), part)

        return self.gather(jax.tree.map(whole, chains))

    def to_local(self, chains: Tree, axis: int = 0) -> Tree:
        """Arrays of the :attr:`local` chains on the host."""
        if self.mesh is None or not hosts.several():
            return jax.tree.map(np.asarray, chains)
        spec = PartitionSpec(*[None] * axis, CHAIN_AXIS)
        with hosts.talking():
            chains = jax.block_until_ready(_resharded(self.mesh, spec)(chains))

        def of_leaf(leaf: Array) -> np.ndarray:
            shards = {shard.index[axis].start or 0: shard.data for shard in leaf.addressable_shards}
            return np.concatenate([np.asarray(shards[first]) for first in sorted(shards)], axis)

        return jax.tree.map(of_leaf, chains)

    @property
    def local(self) -> np.ndarray:
        """The numbers of the chains that this process has devices for."""
        here = jax.process_index()
        return self._chains_of(lambda row: any(device.process_index == here for device in row))

    @property
    def written(self) -> np.ndarray:
        """The numbers of the chains that this process writes: of several, the first one does."""
        here = jax.process_index()
        return self._chains_of(lambda row: row[0].process_index == here)

    def _chains_of(self, wanted: Callable[[np.ndarray], bool]) -> np.ndarray:
        if self.mesh is None:
            return np.arange(self.chains)
        numbers = np.arange(self.chains).reshape(len(self.mesh.devices), -1)
        return numbers[[wanted(row) for row in self.mesh.devices]].ravel()

    @property
    def group(self) -> int:
        """How many consecutive chains at most are always written by one process."""
        if self.mesh is None or not hosts.several():
            return self.chains
        writers = [row[0].process_index for row in self.mesh.devices]
        each = len(writers) // len({*writers})
        together = all(
            len({*writers[i : i + each]}) == 1 for i in range(0, len(writers), max(each, 1))
        )
        rows = each if together and len(writers) % each == 0 else 1
        return rows * self.chains // len(writers)


@lru_cache(maxsize=64)
def _resharded(mesh: Mesh, spec: PartitionSpec) -> Callable[[Tree], Tree]:
    """A program that puts arrays elsewhere."""
    return jax.jit(lambda tree: tree, out_shardings=NamedSharding(mesh, spec))


@lru_cache(maxsize=64)
def _on_mesh(
    program: Callable[..., PyTree],
    mesh: Mesh,
    records: bool,
    draws_first: bool,
    static: tuple[tuple[str, Hashable], ...],
) -> Callable[..., PyTree]:
    """The program of all devices; the compiler sees the axis ``data``, and nothing of ``chain``."""
    chained = PartitionSpec(CHAIN_AXIS)
    recorded = PartitionSpec(None, CHAIN_AXIS) if draws_first else chained

    def local(
        plan: Plan, sampler: PyTree, chains: tuple[PyTree, ...], others: tuple[PyTree, ...]
    ) -> PyTree:
        alone = plan.replace(sampler=sampler) if plan.stacked else plan
        return program(alone, *chains, *others, **dict(static))

    return jax.jit(
        jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(PartitionSpec(), chained, chained, PartitionSpec()),
            out_specs=(chained, chained, recorded, chained) if records else chained,
            axis_names={CHAIN_AXIS} if mesh.shape[DATA_AXIS] > 1 else {*mesh.axis_names},
            check_vma=False,
        )
    )


def choose(spec: RunSpec, mesh: Mesh | None, shard_parameters: bool = False) -> Layout:
    """Where a run is to be.

    Args:
      spec: what was asked.
      mesh: the user's; if None and there are several devices, chains are spread over them.
      shard_parameters: whether each array of a chain is split over ``data``, too.

    Returns:
      The layout.

    Raises:
      ValueError: if the chains or the rows of a step cannot be split so.
    """
    if mesh is None:
        if shard_parameters:
            raise ValueError(
                "shard_parameters=True splits arrays over the axis data of a mesh: give mesh="
            )
        return _spread(spec.chains)
    if not isinstance(mesh, Mesh):
        raise TypeError(
            'mesh must be a jax.sharding.Mesh, such as jax.make_mesh((4, 2), ("chain", "data")); '
            f"got {mesh!r}"
        )
    unknown = [axis for axis in mesh.axis_names if axis not in _AXES]
    if unknown:
        raise ValueError(
            f"the axes of a mesh are chain and data; got {unknown[0]!r} in {dict(mesh.shape)}"
        )
    sizes = [mesh.shape.get(axis, 1) for axis in _AXES]
    if spec.chains % sizes[0]:
        raise ValueError(
            f"chains={spec.chains} cannot be split evenly over the axis chain of the mesh, "
            f"{sizes[0]} devices: use a multiple of {sizes[0]} chains, or another mesh"
        )
    if sizes[1] > 1:
        _check_rows(spec, sizes[1], shard_parameters)
    order = [mesh.axis_names.index(axis) for axis in _AXES if axis in mesh.axis_names]
    devices = mesh.devices.transpose(order).reshape(sizes)
    own = Mesh(devices, _AXES, axis_types=(AxisType.Auto,) * 2)
    missing = {*range(jax.process_count())} - {device.process_index for device in devices.flat}
    if missing:
        raise ValueError(
            f"the mesh has no device of process {min(missing)}: each of the {jax.process_count()} "
            "processes must have a part in the run"
        )
    if jax.device_put(np.float32(0)).devices() == set(devices.flat):
        return Layout(spec.chains)  # one device, where arrays are if nothing is said
    return Layout(spec.chains, own, shard_parameters)


def _spread(chains: int) -> Layout:
    """Chains over as many devices of each process as they can be split evenly over."""
    processes = jax.process_count()
    if chains % processes:
        raise ValueError(
            f"chains={chains} cannot be split evenly over {processes} processes: use a multiple of "
            f"{processes} chains, or give mesh= with several processes along data"
        )
    each = min(sum(d.process_index == p for d in jax.devices()) for p in range(processes))
    number = max(n for n in range(1, each + 1) if chains % (n * processes) == 0)
    if number == processes == 1:
        return Layout(chains)
    some = [
        device
        for process in range(processes)
        for device in [d for d in jax.devices() if d.process_index == process][:number]
    ]
    rows = np.array(some).reshape(-1, 1)
    return Layout(chains, Mesh(rows, _AXES, axis_types=(AxisType.Auto,) * 2))


def _check_rows(spec: RunSpec, size: int, shard_parameters: bool) -> None:
    """Raise unless the rows of a step can be split over ``size`` devices."""
    posterior = posterior_of(spec.target)
    if posterior is None:
        if shard_parameters:
            return
        raise ValueError(
            f"the mesh has data={size}, and this target has no rows to split: use the axis chain"
        )
    rows, name = spec.batch_size, "batch_size"
    if posterior.host is not None:
        rows, name = posterior.host.batch_size, "the rows of a batch"
    elif rows is None and isinstance(spec.target, Posterior):
        rows, name = posterior.size, "without batch_size, the rows of the data"
    elif rows is None:  # an estimator has minibatches of its own
        rows = getattr(getattr(spec.target, "batches", spec.target), "batch_size", None)
    if rows is not None and rows % size:
        raise ValueError(
            f"{name}={rows} cannot be split evenly over the axis data of the mesh, {size} devices: "
            f"use a multiple of {size}"
        )


def _put(leaf: Array, sharding: NamedSharding) -> Array:
    """An array where it belongs; one that is not all of this process moves by a program."""
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    if isinstance(leaf, Array) and not leaf.is_fully_addressable:
        return _resharded(sharding.mesh, sharding.spec)(leaf)  # type: ignore[arg-type]
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])
