"""What a trial asks Ray for, from its own configuration; or that no node can ever give it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.tune.execution.placement_groups import PlacementGroupFactory, resource_dict_to_pg_factory
from ray.util import placement_group

from rlmem.cluster.asking import SHARED, workload_of
from rlmem.cluster.bundles import find_place
from rlmem.cluster.nodes import NodeGroup, parse_nodes
from rlmem.cluster.room import Terms
from rlmem.cluster.workload import Need, Workload
from rlmem.errors import AnalysisError
from rlmem.model.constants import Constants
from rlmem.ray.placement import nodes_of, placement_group_for
from rlmem.ray.trying import NAME
from rlmem.trials import PREDICTED, PREDICTED_VRAM, REQUESTED, Prediction, Predictor, percent
from rlmem.units import format_size

_LOG = logging.getLogger("rlmem")
Bundle = dict[str, float]
#: A trial that is not to run asks for next to nothing, in case Ray starts it nevertheless.
NOTHING: Bundle = {"CPU": 0.001}


class SizedRequest(PlacementGroupFactory):
    """Bundles, and why they are what they are; travels with the trial into its process."""

    #: What is reported beside the trial's own metrics.
    metrics: Mapping[str, int]
    #: Why the trial must not start: no node can hold it (``refusal``), or there is no plan for it (``problem``).
    refusal: str | None
    problem: str | None

    def __init__(
        self,
        bundles: Sequence[Bundle],
        strategy: str = "PACK",
        *,
        metrics: Mapping[str, int] | None = None,
        refusal: str | None = None,
        problem: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(list(bundles), strategy, **more)
        self.metrics, self.refusal, self.problem = dict(metrics or {}), refusal, problem


class Sizing:
    """Configuration to request, for the trials of one trainable."""

    def __init__(
        self,
        predictor: Predictor,
        *,
        nodes: str | Iterable[NodeGroup] | None = None,
        margin: float,
        tried: bool = False,
    ) -> None:
        """``tried`` says that the plans are of dry runs: nobody named one, so that a trial without one runs unsized."""
        self._predictor, self._margin, self._tried = predictor, margin, tried
        self._given = parse_nodes(nodes) if isinstance(nodes, str) else None if nodes is None else tuple(nodes)
        self._known: tuple[frozenset[str], tuple[NodeGroup, ...]] = (frozenset(), ())

    def request(self, config: Mapping[str, Any], given: Any = None) -> Any:
        """What a trial asks for; ``given`` is what the trainable asks for by itself, and its CPUs and GPUs stay."""
        try:
            prediction = self._predictor(config)
        except AnalysisError as error:
            if self._tried:
                _LOG.warning("a trial is measured, not sized and not pruned: %s", error)
                return given
            return SizedRequest([NOTHING], problem=str(error))
        workload = asked_of(prediction, tried=self._tried)
        metrics = {PREDICTED: expected_bytes(prediction, workload)}
        if prediction.expected_vram_bytes is not None:
            metrics[PREDICTED_VRAM] = prediction.expected_vram_bytes
        try:
            factory = placement_group_for(workload, self._nodes(), margin=self._margin)
        except AnalysisError as error:
            line = f"{error} (margin: {percent(self._margin)})"
            return SizedRequest([NOTHING], metrics=metrics, refusal=line)
        bundles, strategy, more = factory.bundles, factory.strategy, {}
        if given is not None:
            theirs = given if isinstance(given, PlacementGroupFactory) else resource_dict_to_pg_factory(given)
            bundles, strategy, more = merged(theirs, bundles), theirs.strategy, _further(theirs)
            if not find_place(bundles, self._nodes(), workload, Terms(margin=self._margin), strategy=strategy):
                most = format_size(round(max(each.get("memory", 0) for each in bundles)))
                how = f"{len(bundles)} bundle{'s' * (len(bundles) > 1)} of up to {most}, {strategy}"
                line = f"{workload.name} does not fit these nodes in the bundles it asks for itself: {how}"
                return SizedRequest([NOTHING], metrics=metrics, refusal=line)
        metrics[REQUESTED] = round(sum(each.get("memory", 0) for each in bundles))
        return SizedRequest(bundles, strategy, metrics=metrics, **more)

    def _nodes(self) -> tuple[NodeGroup, ...]:
        """Nodes as if nothing ran on them. Cores and custom resources are left to Tune: a trial is refused for its memory alone."""
        groups = self._given
        if groups is None:
            alive = frozenset(node["NodeID"] for node in ray.nodes() if node["Alive"])
            if alive != self._known[0]:
                self._known = (alive, nodes_of(ray))
            groups = self._known[1]
        return tuple(replace(group, cpus=None, resources=None) for group in groups)


def asked_of(prediction: Prediction, *, tried: bool = False) -> Workload:
    """A trial as a workload: by its plan, or as the one bundle of so many bytes that a function said."""
    plan = prediction.plan
    if plan is not None:
        if plan.spec.get("framework.name") == "rllib":  # its driver is a trial with or without Tune
            return workload_of(plan)
        if tried:  # a dry run has imported Ray and Tune; what is left is the connection
            return replace(workload_of(plan, worker="ray.actor"), name=NAME)
        workload = workload_of(plan)
        first, *others = workload.needs
        tune = Constants().quantity("ray.trial")
        expected = None if first.expected_bytes is None else first.expected_bytes + tune.value
        first = replace(first, ram_bytes=first.ram_bytes + tune.high, expected_bytes=expected)
        return replace(workload, needs=(first, *others))
    need = Need(role="process", ram_bytes=prediction.high_bytes, expected_bytes=prediction.expected_bytes)
    return Workload(name=NAME, needs=(need,))


def expected_bytes(prediction: Prediction, workload: Workload) -> int:
    """What a trial's processes should be seen to hold: every bundle, and the library pages they share once."""
    needs = sum((each.expected_bytes or each.ram_bytes) * each.count for each in workload.needs)
    shared: dict[str, int] = {}
    for entry in prediction.plan.ledger.entries if prediction.plan else ():
        if entry.component == SHARED and entry.counts:
            shared[entry.phase] = shared.get(entry.phase, 0) + entry.nbytes
    return needs + max(shared.values(), default=0)


def merged(factory: PlacementGroupFactory, sized: Sequence[Bundle]) -> list[Bundle]:
    """Bundles as a trainable asks for them, with the memory of ours; what it says of memory itself is kept.

    Where the two divide a trial differently, all of its memory goes to the first bundle, which is the trial's own process.
    """
    bundles = [{}] * factory.head_bundle_is_empty + factory.bundles
    if len(bundles) == len(sized):
        return [{"memory": ours.get("memory", 0), **theirs} for ours, theirs in zip(sized, bundles, strict=True)]
    total = sum(each.get("memory", 0) for each in sized)
    kept = sum(each.get("memory", 0) for each in bundles[1:])
    return [{"memory": max(0, total - kept), **bundles[0]}, *bundles[1:]]


def _further(factory: PlacementGroupFactory) -> dict[str, Any]:
    """What else a trainable says of its placement group, such as the labels of nodes; its first bundle is not empty any more."""
    more = inspect.signature(placement_group).bind(factory.bundles, factory.strategy, *factory._args, **factory._kwargs)
    found = {name: value for name, value in more.arguments.items() if name not in {"bundles", "strategy"}}
    if factory.head_bundle_is_empty and found.get("bundle_label_selector"):
        found["bundle_label_selector"] = [{}, *found["bundle_label_selector"]]
    return found
