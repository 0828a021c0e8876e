"""Packing never overcommits a node, counts every bundle once, and agrees with placing bundle by bundle on node by node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmem.cluster.nodes import NodeGroup, parse_nodes
from rlmem.cluster.packing import MOST_SPREAD, Packing, pack
from rlmem.cluster.room import SHARES, SMALLEST_STORE, SPILL_SHARE, Terms
from rlmem.cluster.workload import STRICT_PACK, STRICT_SPREAD, Need, Workload
from rlmem.units import GIB, MIB


def size(low: int, high: int) -> st.SearchStrategy[int]:
    """Bytes, some of them round."""
    return st.one_of(st.integers(low, high), st.integers(low // MIB, high // MIB).map(lambda n: n * MIB))


@st.composite
def needs(draw: st.DrawFn, role: str, most: int) -> Need:
    return Need(
        role=role,
        count=1 if role == "driver" else draw(st.integers(1, most)),
        ram_bytes=draw(size(10 * MIB, 6 * GIB)),
        vram_bytes=draw(st.one_of(st.just(0), st.just(0), size(100 * MIB, 20 * GIB))),
        cache_bytes=draw(st.one_of(st.just(0), size(MIB, 4 * GIB))),
        whole_gpu=draw(st.booleans()),
        least_gpu=draw(st.sampled_from([0.0, 0.0, 0.0, 0.25, 0.3, 1.0])),
        cpus=draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0])),
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    roles = ("driver", "env-runner", "eval-env-runner", "learner")[: draw(st.integers(1, 4))]
    return Workload(
        name="run",
        needs=tuple(draw(needs(role, 9)) for role in roles),
        node_bytes=draw(st.one_of(st.just(0), size(MIB, GIB))),
        store_bytes=draw(st.one_of(st.just(0), size(MIB, 2 * GIB))) if len(roles) > 1 else 0,
    )


@st.composite
def node_groups(draw: st.DrawFn) -> NodeGroup:
    unified = draw(st.booleans())
    gpus = 1 if unified else draw(st.integers(0, 3))
    live = draw(st.booleans())
    return NodeGroup(
        name="node",
        count=draw(st.integers(1, 4)),
        ram_bytes=draw(size(GIB, 40 * GIB)),
        cpus=draw(st.one_of(st.none(), st.sampled_from([1.0, 2.0, 8.0, 16.0]))),
        gpus=gpus,
        vram_bytes=draw(st.one_of(st.none(), size(GIB, 24 * GIB))) if gpus and not unified else None,
        unified=unified,
        memory_bytes=draw(size(GIB, 40 * GIB)) if live else None,
        store_bytes=draw(size(75 * MIB, 4 * GIB)) if live else None,
    )


CLUSTERS = st.lists(node_groups(), min_size=1, max_size=3).map(tuple)
TERMS = st.floats(0, 0.5).map(lambda margin: Terms(margin=margin))


def raised(nbytes: int, terms: Terms) -> int:
    return nbytes + math.ceil(nbytes * terms.margin)


def share_of(need: Need, group: NodeGroup, terms: Terms) -> int | None:
    """Ten thousandths of a GPU; ``None`` when none holds it."""
    if not need.vram_bytes and not need.least_gpu:
        return 0
    if not group.gpus:
        return None
    least = math.ceil(need.least_gpu * SHARES)
    if not need.vram_bytes:
        return least
    whole = group.ram_bytes if group.unified else group.vram_bytes
    if whole is None:
        return SHARES
    if raised(need.vram_bytes, terms) > whole:
        return None
    beside = -(-(raised(need.vram_bytes, terms) + need.cache_bytes) * SHARES // whole)
    return SHARES if need.whole_gpu else max(least, min(SHARES, beside))


def arranged(taken: tuple[int, ...], shares: tuple[tuple[int, int], ...]) -> bool:
    """Whether so many shares of each size fill GPUs exactly so far, none of them on two."""
    if not shares:
        return not any(taken)
    (share, count), rest = shares[0], shares[1:]

    def ways(left: int, gpus: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not gpus:
            yield from [()] if not left else []
            return
        for here in range(min(left, gpus[0] // share), -1, -1):
            yield from ((gpus[0] - here * share, *others) for others in ways(left - here, gpus[1:]))

    return any(arranged(after, rest) for after in ways(count, taken))


def memory_of(need: Need, group: NodeGroup, terms: Terms) -> int:
    return raised(need.ram_bytes, terms) + (raised(need.vram_bytes, terms) if group.unified else 0)


def check(packing: Packing) -> None:
    """What must hold of any packing, worked out from its rows alone."""
    by_role = {need.role: need for need in packing.workload.needs}
    terms = packing.terms
    placed = dict.fromkeys(by_role, 0)
    nodes = [0] * len(packing.groups)
    homes = 0
    others = sum(need.count for need in by_role.values()) - 1
    part = -(-packing.workload.store_bytes // others) if others else 0
    for use in packing.uses:
        group = packing.groups[use.group]
        nodes[use.group] += use.nodes
        homes += use.nodes * use.homes
        for role, count in use.bundles:
            assert count > 0
            placed[role] += use.nodes * count
        memory = sum(count * memory_of(by_role[role], group, terms) for role, count in use.bundles)
        store = use.store_bytes or 0
        assert use.memory_bytes == memory
        assert memory + raised(packing.workload.node_bytes, terms) + store == use.ram_bytes
        assert use.ram_bytes <= use.usable_bytes <= 0.95 * group.ram_bytes
        assert use.memory_bytes <= use.admit_bytes
        # All that is in flight passes through the drivers' nodes; whoever cannot be of those trials puts its part here too.
        away = sum(max(0, count - use.homes * by_role[role].count) for role, count in use.bundles)
        flight = use.homes * packing.workload.store_bytes + away * part
        assert store * SPILL_SHARE >= raised(flight, terms) - 1
        assert store >= (SMALLEST_STORE if packing.workload.node_bytes or packing.workload.store_bytes else 0)
        cpus = sum(count * by_role[role].cpus for role, count in use.bundles)
        assert use.cpus == pytest.approx(cpus)
        if group.cpus is not None:
            assert cpus <= group.cpus
        if group.memory_bytes is not None:
            assert memory <= group.memory_bytes
        if group.store_bytes is not None:
            assert store == group.store_bytes
        shares = {role: share_of(by_role[role], group, terms) for role, _ in use.bundles}
        assert None not in shares.values()
        assert len(use.gpus) == group.gpus
        assert all(0 <= share <= 1 for share in use.gpus)
        taken = sum(count * (shares[role] or 0) for role, count in use.bundles) / SHARES
        assert sum(use.gpus) == pytest.approx(taken)
        sharing = [(shares[role] or 0, count) for role, count in use.bundles if shares[role]]
        if sum(count for _, count in sharing) <= 40:
            loads = tuple(round(share * SHARES) for share in use.gpus)
            assert arranged(loads, tuple(sorted(sharing, reverse=True)))
        for share, count in sharing:
            assert count <= group.gpus * (SHARES // share)
    assert all(used <= group.count for used, group in zip(nodes, packing.groups, strict=True))
    if packing.trials:
        assert placed == {role: packing.trials * need.count for role, need in by_role.items()}
        assert homes == packing.trials
        assert not packing.unplaced
    else:
        missing = dict(packing.unplaced)
        assert {role: placed[role] + missing.get(role, 0) for role in by_role} == {
            role: need.count for role, need in by_role.items()
        }
        assert missing


@dataclass(slots=True)
class Node:
    """One node of its own, filled bundle by bundle."""

    group: NodeGroup
    terms: Terms
    workload: Workload
    memory: int = 0
    flight: int = 0
    cpus: float = 0.0
    gpus: list[int] = field(default_factory=list)

    def copy(self) -> Node:
        return Node(
            self.group,
            self.terms,
            self.workload,
            self.memory,
            self.flight,
            self.cpus,
            list(self.gpus or [0] * self.group.gpus),
        )

    def put(self, need: Need, flight: int) -> bool:
        """Take one bundle if there is room."""
        after = self.copy()
        after.memory += memory_of(need, self.group, self.terms)
        after.flight += flight
        after.cpus += need.cpus
        if need.vram_bytes or need.least_gpu:
            share = share_of(need, self.group, self.terms)
            place = next((i for i, taken in enumerate(after.gpus) if share and taken + share <= SHARES), None)
            if share is None or place is None:
                return False
            after.gpus[place] += share
        if not after.fits():
            return False
        self.memory, self.flight, self.cpus, self.gpus = after.memory, after.flight, after.cpus, after.gpus
        return True

    def fits(self) -> bool:
        stores = self.workload.node_bytes or self.workload.store_bytes
        wanted = max(SMALLEST_STORE, math.ceil(raised(self.flight, self.terms) / SPILL_SHARE)) if stores else 0
        store = wanted if self.group.store_bytes is None else self.group.store_bytes
        ram = self.memory + raised(self.workload.node_bytes, self.terms) + store
        return (
            ram <= int(self.group.ram_bytes * 0.95)
            and wanted <= (self.group.store_bytes if self.group.store_bytes is not None else wanted)
            and (self.group.memory_bytes is None or self.memory <= self.group.memory_bytes)
            and (self.group.cpus is None or self.cpus <= self.group.cpus)
        )


def one_by_one(workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms, at_most: int) -> int:
    """Trials placed the slow way: in the order given, with GPUs last, and one with its driver anywhere."""
    orders = [groups]
    for count in range(2, len(groups) + 1):
        orders.append(tuple(sorted(groups[:count], key=lambda group: group.gpus > 0)))
    if not any(need.vram_bytes or need.least_gpu for need in workload.needs[1:]) or (
        workload.needs[0].vram_bytes or workload.needs[0].least_gpu
    ):
        orders = orders[:1]
    found = max(in_order(workload, order, terms, at_most) for order in orders)
    if found or not at_most:
        return found
    nodes = sum(group.count for group in groups)
    return int(any(spread(workload, all_nodes(workload, groups, terms), home) for home in range(nodes)))


def all_nodes(workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms) -> list[Node]:
    return [Node(group, terms, workload).copy() for group in groups for _ in range(group.count)]


def sorted_needs(workload: Workload) -> list[Need]:
    return sorted(workload.needs, key=lambda need: (need.vram_bytes, need.ram_bytes), reverse=True)


def in_order(workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms, at_most: int) -> int:
    nodes = all_nodes(workload, groups, terms)
    trials = 0
    while trials < at_most:
        for index, node in enumerate(nodes):
            tried = node.copy()
            tried.flight += workload.store_bytes
            if all(tried.put(need, 0) for need in sorted_needs(workload) for _ in range(need.count)):
                nodes[index] = tried
                break
        else:
            after = spread(workload, nodes)
            if after is None:
                return trials
            nodes = after
        trials += 1
    return trials


def spread(workload: Workload, nodes: list[Node], at: int | None = None) -> list[Node] | None:
    """One more trial over several nodes, its driver on the first that holds it, or on one that is named."""
    others = sum(need.count for need in workload.needs) - 1
    share = -(-workload.store_bytes // others) if others else 0
    copies = [node.copy() for node in nodes]
    home = next((node for node in (copies if at is None else [copies[at]]) if _drives(node, workload)), None)
    if home is None:
        return None
    bundles = [need for need in sorted_needs(workload) for _ in range(need.count - (need is workload.needs[0]))]
    if not all(any(node.put(need, 0 if node is home else share) for node in copies) for need in bundles):
        return None
    return copies


def _drives(node: Node, workload: Workload) -> bool:
    node.flight += workload.store_bytes
    if node.put(workload.needs[0], 0):
        return True
    node.flight -= workload.store_bytes
    return False


@given(workloads(), CLUSTERS, TERMS)
@settings(max_examples=200, deadline=None)
def test_no_node_is_overcommitted_and_every_bundle_is_counted_once(
    workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms
) -> None:
    check(pack(workload, groups, terms))


@given(workloads(), st.floats(0, 0.5), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_a_byte_less_than_trials_need_holds_one_trial_less(workload: Workload, margin: float, trials: int) -> None:
    terms = Terms(margin=margin, kill_share=1.0)
    plenty = NodeGroup(name="node", ram_bytes=1 << 50, cpus=4096, gpus=64)
    plain = replace(workload, needs=tuple(replace(need, vram_bytes=0, least_gpu=0.0) for need in workload.needs))
    (use,) = pack(plain, (plenty,), terms, trials=trials).uses
    exact = replace(plenty, ram_bytes=use.ram_bytes, cpus=use.cpus, memory_bytes=use.memory_bytes)
    shapes = [exact, replace(exact, store_bytes=use.store_bytes)]
    for shape in shapes:
        assert pack(plain, (shape,), terms).trials == trials
        for less in (
            {"ram_bytes": use.ram_bytes - 1},
            {"memory_bytes": use.memory_bytes - 1},
            {"cpus": use.cpus - 0.5} if use.cpus else {},
            {"store_bytes": (use.store_bytes or 0) - 1} if shape.store_bytes else {},
        ):
            assert not less or pack(plain, (replace(shape, **less),), terms).trials < trials  # type: ignore[arg-type]


@given(workloads(), CLUSTERS, TERMS, st.integers(1, 5))
@settings(max_examples=80, deadline=None)
def test_no_more_trials_are_placed_than_asked_for(
    workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms, trials: int
) -> None:
    packing = pack(workload, groups, terms, trials=trials)
    check(packing)
    assert packing.trials == min(trials, pack(workload, groups, terms).trials)


@given(workloads(), CLUSTERS, node_groups(), TERMS)
@settings(max_examples=80, deadline=None)
def test_further_nodes_never_fit_fewer(
    workload: Workload, groups: tuple[NodeGroup, ...], more: NodeGroup, terms: Terms
) -> None:
    assert pack(workload, (*groups, more), terms).trials >= pack(workload, groups, terms).trials


@given(workloads(), CLUSTERS, TERMS)
@settings(max_examples=80, deadline=None)
def test_counting_agrees_with_placing_one_by_one(
    workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms
) -> None:
    if len({(need.vram_bytes, need.least_gpu) for need in workload.needs} - {(0, 0.0)}) > 1:
        return  # shares of several sizes: counting puts those of all trials on GPUs largest first, and may fit more
    most = 12
    assert min(pack(workload, groups, terms, trials=most).trials, most) == one_by_one(workload, groups, terms, most)


TRIAL = Workload(name="sweep", needs=(Need(role="trial", ram_bytes=GIB, cpus=2),))


def test_a_thousand_nodes_are_one_row() -> None:
    packing = pack(TRIAL, parse_nodes("1000x(64GB,16cpu)"))
    assert packing.trials == 8000
    assert [(use.nodes, use.bundles) for use in packing.uses] == [(1000, (("trial", 8),))]


def test_a_number_that_is_asked_for_leaves_the_other_nodes_idle() -> None:
    packing = pack(TRIAL, parse_nodes("1000x(64GB,16cpu)"), trials=20)
    assert [(use.nodes, use.bundles) for use in packing.uses] == [(2, (("trial", 8),)), (1, (("trial", 4),))]
    assert packing.idle_nodes == 997


RLLIB = Workload(
    name="rllib",
    needs=(
        Need(role="driver", ram_bytes=2 * GIB),
        Need(role="env-runner", count=100, ram_bytes=700 * MIB),
        Need(role="learner", count=2, ram_bytes=3 * GIB, vram_bytes=9 * GIB, cpus=0),
    ),
    node_bytes=600 * MIB,
    store_bytes=3 * GIB,
)


def test_a_trial_that_fits_no_single_node_is_spread_over_several() -> None:
    packing = pack(RLLIB, parse_nodes("3x(64GB,64cpu,1xA100-80GB)"), trials=1)
    check(packing)
    assert packing.trials == 1
    home, away = packing.uses
    assert home.homes == 1
    assert away.homes == 0
    # Where the driver is everything passes; elsewhere only what that node's EnvRunners make.
    assert (home.store_bytes or 0) > (away.store_bytes or 0) > SMALLEST_STORE


def test_hundreds_of_trials_are_spread_over_a_thousand_nodes() -> None:
    packing = pack(RLLIB, parse_nodes("1000x(64GB,64cpu,1xA100-80GB)"))
    check(packing)
    # 101 bundles of 61 GiB and more on nodes of 56.6 GiB that may be used: two of three trials' worth at the most.
    assert 500 < packing.trials < 650
    assert not packing.at_least


def test_beyond_thousands_of_spread_trials_the_answer_is_at_least() -> None:
    packing = pack(RLLIB, parse_nodes("100000x(64GB,64cpu,1xA100-80GB)"))
    assert (packing.trials, packing.at_least) == (MOST_SPREAD, True)


BESIDE = Workload(
    name="rllib",
    needs=(
        Need(role="driver", ram_bytes=12 * GIB),
        Need(role="env-runner", count=4, ram_bytes=2 * GIB),
        Need(role="learner", ram_bytes=12 * GIB, vram_bytes=10 * GIB),
    ),
)


@pytest.mark.parametrize("text", ["{gpu} + {plain}", "{plain} + {gpu}"])
@pytest.mark.parametrize("count", [1, 50])
def test_a_driver_does_not_take_the_ram_beside_a_gpu_that_a_learner_needs(text: str, count: int) -> None:
    nodes = text.format(gpu=f"{count}x(16GB,8cpu,1x24GB-gpu)", plain=f"{count}x(26GB,32cpu)")
    packing = pack(BESIDE, parse_nodes(nodes))
    check(packing)
    assert packing.trials == count


def test_a_driver_may_live_in_any_group() -> None:
    """The first node holds the driver, and then nobody holds the others."""
    workload = replace(BESIDE, needs=(BESIDE.needs[0], Need(role="env-runner", ram_bytes=20 * GIB)))
    packing = pack(workload, parse_nodes("30GB + 16GB"))
    check(packing)
    assert (packing.trials, packing.at_least) == (1, True)


def gpu_trial(gib: float, **more: object) -> Workload:
    return Workload(
        name="gpu",
        needs=(Need(role="trial", ram_bytes=MIB, vram_bytes=int(gib * GIB), **more),),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("gib", "each"), [(0.9, 24), (4, 5), (12, 1), (21.8, 1), (21.9, 0)])
def test_a_share_of_a_gpu_never_spans_two(gib: float, each: int) -> None:
    """With a margin of 10 % on GPUs of 24 GiB: five of 4.4 GiB on each, not eleven on two."""
    assert pack(gpu_trial(gib), parse_nodes("(64GB,2x24GiB-gpu)")).trials == 2 * each


def test_a_cache_counts_beside_others_and_gives_way_alone() -> None:
    nodes = parse_nodes("(64GB,1x24GiB-gpu)")
    assert pack(gpu_trial(6), nodes).trials == 3
    assert pack(gpu_trial(6, cache_bytes=5 * GIB), nodes).trials == 2
    assert pack(gpu_trial(20, cache_bytes=15 * GIB), nodes).trials == 1


def test_learners_that_exchange_gradients_have_a_gpu_each() -> None:
    pair = Workload(name="ddp", needs=(Need(role="learner", count=2, ram_bytes=MIB, vram_bytes=GIB, whole_gpu=True),))
    assert pack(pair, parse_nodes("(64GB,3x24GiB-gpu)")).trials == 1


def test_one_pool_counts_both_kinds_of_memory_together() -> None:
    both = Workload(name="one", needs=(Need(role="trial", ram_bytes=20 * GIB, vram_bytes=20 * GIB),))
    assert pack(both, parse_nodes("dgx-spark")).trials == 2  # 44 GiB each with the margin, of 121.6 GiB


def test_what_ray_was_told_to_admit_limits_a_running_node() -> None:
    (node,) = parse_nodes("64GB")
    running = NodeGroup(name="live", ram_bytes=node.ram_bytes, memory_bytes=5 * GIB, store_bytes=GIB, cpus=64)
    assert pack(TRIAL, (running,)).trials == 4  # 1.1 GiB each


@given(workloads(), CLUSTERS, TERMS)
@settings(max_examples=150, deadline=None)
def test_every_bundle_of_a_trial_is_on_another_node_where_the_strategy_says_so(
    workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms
) -> None:
    strict = replace(workload, strategy=STRICT_SPREAD)
    packing, one = pack(strict, groups, terms), pack(strict, groups, terms, trials=1)
    check(packing)
    check(one)
    assert all(sum(count for _, count in use.bundles) <= max(1, packing.trials) for use in packing.uses)
    assert all([count for _, count in use.bundles] == [1] for use in one.uses)
    assert one.trials == min(1, packing.trials)
    assert workload.bundles <= sum(group.count for group in groups) or not packing.trials


@given(workloads(), CLUSTERS, TERMS)
@settings(max_examples=150, deadline=None)
def test_a_trial_is_on_one_node_where_the_strategy_says_so(
    workload: Workload, groups: tuple[NodeGroup, ...], terms: Terms
) -> None:
    packing = pack(replace(workload, strategy=STRICT_PACK), groups, terms)
    check(packing)
    assert packing.trials <= pack(workload, groups, terms).trials
    if packing.trials:
        counts = {need.role: need.count for need in workload.needs}
        assert all(count == use.homes * counts[role] for use in packing.uses for role, count in use.bundles)
    else:
        assert sum(use.nodes for use in packing.uses) <= 1


def test_bundles_that_must_differ_use_the_emptiest_nodes_first() -> None:
    """Three nodes with room for two bundles each hold three trials of two, not two on the same nodes and then none."""
    pair = Workload(
        name="pair",
        needs=(Need(role="driver", ram_bytes=GIB), Need(role="env-runner", ram_bytes=GIB)),
        strategy=STRICT_SPREAD,
    )
    assert pack(pair, parse_nodes("3x(64GB,2cpu)")).trials == 3
    assert pack(pair, parse_nodes("1x(64GB,64cpu)")).trials == 0


def test_hundreds_of_trials_with_every_bundle_apart_are_counted() -> None:
    strict = replace(RLLIB, strategy=STRICT_SPREAD)
    packing = pack(strict, parse_nodes("1000x(64GB,16cpu,1xA100-80GB)"))
    check(packing)
    # 101 cores a trial of 16,000; two trials' learners a GPU, which each has to itself or not.
    assert 120 < packing.trials <= 158
    assert not pack(strict, parse_nodes("102x(64GB,16cpu,1xA100-80GB)")).trials
    assert pack(strict, parse_nodes("103x(64GB,16cpu,1xA100-80GB)"), trials=1).trials


SIMULATED = Workload(
    name="sim",
    needs=(
        Need(role="driver", ram_bytes=GIB),
        Need(role="env-runner", count=3, ram_bytes=GIB, resources=(("sim", 1),)),
    ),
)


def test_custom_resources_limit_where_they_are_known() -> None:
    (node,) = parse_nodes("(64GB,16cpu)")
    assert pack(SIMULATED, (node,)).trials == 4
    assert pack(SIMULATED, (replace(node, resources=(("sim", 7.0),)),)).trials == 2
    assert not pack(SIMULATED, (replace(node, resources=()),)).trials
    mixed = (replace(node, resources=()), replace(node, resources=(("sim", 100.0),)))
    assert [(use.group, use.homes) for use in pack(SIMULATED, mixed).uses] == [(1, 4)]
