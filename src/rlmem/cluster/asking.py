"""A plan as a workload: what its processes ask of a cluster, by role.

RLlib's roles are bundles of their own, divided as RLlib's own request divides them (``Algorithm.default_resource_request``, 2.60):
driver, EnvRunners, EnvRunners of the evaluation, learners; aggregators live in the bundles of learners. Every other run is one
bundle, ``trial``: its whole tree of processes.
"""

from __future__ import annotations

from math import inf

from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.room import Terms, frame_of
from rlmem.cluster.workload import PACK, Need, Workload
from rlmem.core.ledger import Entry
from rlmem.core.plan import Plan
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.frameworks.rllib.counts import AGGREGATOR, DRIVER, EVALUATION, LEARNER, RAY, RUNNER, SERVER, STORE, counts
from rlmem.model.constants import Constants

TRIAL = "trial"
CACHE = "runtime.allocator-cache"
SHARED = "runtime.shared"
#: Bundles in the order of RLlib's own request, each with the roles that live in it.
_BUNDLES = (
    (DRIVER, (DRIVER, SERVER)),
    (RUNNER, (RUNNER,)),
    (EVALUATION, (EVALUATION,)),
    (LEARNER, (LEARNER, AGGREGATOR)),
)

#: Where the custom resources of a bundle are described. Runners that evaluate have those of the others, as RLlib has it unless its
#: ``evaluation_config`` says otherwise.
_RESOURCES = {
    DRIVER: "rllib.driver_resources",
    RUNNER: "rllib.runner_resources",
    EVALUATION: "rllib.runner_resources",
    LEARNER: "rllib.learner_resources",
}
_NOT_CUSTOM = frozenset(["CPU", "GPU", "memory", "object_store_memory"])


def process_counts(spec: RunSpec) -> dict[str, int]:
    """Processes by the names that a ledger has for them."""
    if spec.get("framework.name") == "rllib":
        return counts(spec)
    found = {"main": 1}
    for process, number, how in (("workers", "n_envs", "vec_env"), ("eval", "eval.n_envs", "eval.vec_env")):
        if spec.get(how) == "subproc" and spec.get(number):
            found[process] = int(spec.get(number))
    return found


def workload_of(
    plan: Plan, *, on_ray: bool = True, worker: str = "ray.idle-worker", constants: Constants | None = None
) -> Workload:
    """What a plan asks of a cluster; off Ray, a run that is not RLlib's pays nothing for Ray's own processes.

    ``worker`` is the constant of what a process of Ray's holds beside the run: an interpreter with Ray in it, unless the plan has that.
    """
    if plan.spec.get("framework.name") == "rllib":
        return _rllib(plan)
    known = constants or Constants()
    beside = known.quantity(worker) if on_ray else None
    daemons = [known.quantity(name) for name in ("ray.daemons", "ray.binaries")] if on_ray else []
    ram, vram = plan.top("ram"), plan.top("vram")
    processes = process_counts(plan.spec)
    need = Need(
        role=TRIAL,
        ram_bytes=(ram.high_bytes if ram else 0) + (beside.high if beside else 0),
        expected_bytes=(ram.expected_bytes if ram else 0) + (beside.value if beside else 0),
        vram_bytes=vram.high_bytes if vram else 0,
        cache_bytes=_cached(plan),
        # The main process, and a core for each environment that has a process; those of an evaluation run when these wait.
        cpus=float(1 + processes.get("workers", 0)),
    )
    return Workload(name=plan.spec.name, needs=(need,), node_bytes=sum(amount.high for amount in daemons))


def room_of(group: NodeGroup, terms: Terms, constants: Constants | None = None) -> tuple[int, int | None]:
    """RAM and GPU memory that a run in one place may need on an empty node at most, beside Ray and with the margin."""
    known = constants or Constants()
    paid = sum(known.quantity(name).high for name in ("ray.daemons", "ray.binaries"))
    empty = Workload(name="", needs=(Need(role=TRIAL, ram_bytes=0),), node_bytes=paid)
    frame = frame_of(group, empty, terms)
    over = frame.over(0, 0, frame.empty.units)
    free = -max(over["ram"], over.get("memory", over["ram"]))
    ram = int(free / (1 + terms.margin)) - known.quantity("ray.idle-worker").high
    return max(0, ram), None if group.vram_bytes is None else int(group.vram_bytes / (1 + terms.margin))


def _cached(plan: Plan, *processes: str) -> int:
    found = (
        e.amount.high for e in plan.ledger.entries if e.component == CACHE and (not processes or e.process in processes)
    )
    return max(found, default=0)


def _rllib(plan: Plan) -> Workload:
    number = process_counts(plan.spec)
    needs = []
    for bundle, roles in _BUNDLES:
        if bundle in number:
            needs.append(_need(plan, bundle, roles, number))
        else:  # aggregators without learner actors have bundles of their own
            needs += [_need(plan, role, (role,), number) for role in roles[1:] if role in number]
    return Workload(
        name=plan.spec.name,
        needs=tuple(needs),
        node_bytes=_held(plan, "ram", RAY)[1],
        store_bytes=_held(plan, "ram", STORE)[1],
        strategy=str(plan.spec.get("rllib.placement_strategy", PACK)).upper(),
    )


def _need(plan: Plan, bundle: str, roles: tuple[str, ...], number: dict[str, int]) -> Need:
    """Bundles of one role, with an equal part of those that live in them."""
    count = number[bundle]
    sums = [_held(plan, "ram", role) for role in roles]
    vram = sum(_held(plan, "vram", role)[1] for role in roles)
    asked = _gpu(plan.spec, bundle, number)
    return Need(
        role=bundle,
        count=count,
        ram_bytes=-(-sum(high for _, high in sums) // count),
        expected_bytes=-(-sum(expected for expected, _ in sums) // count),
        vram_bytes=-(-vram // count),
        cache_bytes=-(-_cached(plan, *roles) // count),
        whole_gpu=bundle == LEARNER and count > 1 and vram > 0,
        asked_gpu=asked,
        # What a learner asks for can be changed to what its bytes need. Runners ask for a share to be that many on a GPU; and of what
        # has no bytes nobody knows what it holds there.
        least_gpu=asked if bundle in (RUNNER, EVALUATION) or not vram else 0.0,
        cpus=_cpus(plan.spec, bundle, number, on_gpu=vram > 0),
        resources=_customs(plan.spec, bundle),
    )


def _cpus(spec: RunSpec, bundle: str, number: dict[str, int], *, on_gpu: bool) -> float:
    """Cores of a bundle as RLlib asks for them; where nothing is said, none for a learner with a GPU, one for any other."""
    learner = float(spec.get("rllib.learner_cpus", 0 if on_gpu else 1))
    if bundle in (RUNNER, EVALUATION):
        return float(spec.get("rllib.runner_cpus", 1))
    if bundle == LEARNER:
        return learner - (-number.get(AGGREGATOR, 0) // number[LEARNER])
    if bundle == DRIVER:
        driver = float(spec.get("rllib.driver_cpus", 1))
        return driver if LEARNER in number else max(driver, learner)
    return 1.0


def _gpu(spec: RunSpec, bundle: str, number: dict[str, int]) -> float:
    """What RLlib's process in a bundle asks Ray for of a GPU; the driver learns where there is no learner."""
    if bundle in (RUNNER, EVALUATION):
        return float(spec.get("rllib.runner_gpus", 0))
    learns = bundle == LEARNER or (bundle == DRIVER and LEARNER not in number)
    return float(spec.get("rllib.learner_gpus", 0)) if learns else 0.0


def _customs(spec: RunSpec, bundle: str) -> tuple[tuple[str, float], ...]:
    """Custom resources that the process of a bundle asks for; RLlib's driver that learns asks for none of a learner's."""
    field = _RESOURCES.get(bundle)
    return tuple(_custom(text, field) for text in spec.get(field, ()) or ()) if field else ()


def _custom(text: str, field: str) -> tuple[str, float]:
    name, sign, amount = text.rpartition("=")
    try:
        number = float(amount)
    except ValueError:
        number = 0.0
    if not sign or not name.strip() or not 0 < number < inf:
        raise SpecError(field, f"{text!r}: write it as name=amount, such as sim=1")
    if name.strip() in _NOT_CUSTOM:
        raise SpecError(
            field, f"{text!r}: {name.strip()} is no custom resource; cores and GPUs have fields of their own"
        )
    return name.strip(), number


def _held(plan: Plan, device: str, process: str) -> tuple[int, int]:
    """The most that processes of a name hold together in any phase: expected, and upper bound."""
    sums: dict[str, tuple[int, int]] = {}
    for entry in plan.ledger.entries:
        if _belongs(entry, process) and entry.device == device and entry.counts:
            expected, high = sums.get(entry.phase, (0, 0))
            sums[entry.phase] = (expected + entry.nbytes, high + entry.amount.high)
    found = sums.values()
    return max((expected for expected, _ in found), default=0), max((high for _, high in found), default=0)


def _belongs(entry: Entry, process: str) -> bool:
    """Pages that all processes of a node share are the node's, whoever's ledger line they are in."""
    return process == RAY if entry.component == SHARED else entry.process == process
