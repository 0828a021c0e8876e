"""The drones in torch, on any device: 49 bytes an agent, flown a slice of agents at a time.

The same physics as ``reference.py``, in its order. What differs is how little is touched: an array a quantity, agents
side by side, angles of all ten substeps first (rates are constant over a step), and vectors turned by one angle after the
other instead of by 3×3 matrices. On CUDA one kernel does it all (``physics_cuda.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rlmem.errors import UsageError
from rlmem.swarm.settings import ACTIONS, SUBSTEPS, TARGETS

DT, GRAVITY, HEIGHT = 0.01, 9.81, 10.0
#: Rows of the state: what a step changes, and what a reset draws, with its range.
MOVING = 9
DRAWN = ((0.5, 1.5), (0.05, 0.15), (0.8, 1.2))
PICKS = 10
#: Scratch is a multiple of this wide, so that vector code, never a scalar rest, computes every agent, wherever it stands
#: in whichever slice: the same bits again in ``replay``.
LANES = 64
#: Rows turned at once: ten substeps, and the velocity after them with the last angles, for the reward.
TURNED = SUBSTEPS + 1
#: Agents flown at once on the CPU. As many as possible, for each call of torch costs 1 to 3 µs; but torch cuts arithmetic on
#: 32,768 values and more between threads, and where it cuts is not a matter of lanes.
BLOCK = 32_767 // TURNED // LANES * LANES
#: On a GPU without Triton.
CUDA_BLOCK = 16_384


class Drones:
    """N drones; ``state`` holds position, velocity, angles, mass, drag and thrust coefficient as rows [12, N]."""

    def __init__(self, agents: int, device: torch.device | str = "cpu") -> None:
        if agents < 1:
            raise UsageError(f"agents: expected at least 1, got {agents}")
        self.agents = agents
        self.device = torch.device(device)
        self.state = torch.zeros(MOVING + len(DRAWN), agents, device=self.device)
        self.pick = torch.zeros(agents, dtype=torch.uint8, device=self.device)
        self.pos, self.vel, self.ang = self.state[0:3], self.state[3:6], self.state[6:9]
        self.mass, self.drag, self.thrust = self.state[9:]
        self._table = commands().to(self.device)
        self._kernel = _find_kernel(self.device)
        self._scratch: Scratch | None = None

    @property
    def nbytes(self) -> int:
        """What the agents hold; the scratch of a step comes on top."""
        return int(self.state.nbytes + self.pick.nbytes)

    @property
    def scratch_nbytes(self) -> int:
        """What a step keeps for itself between calls, however many agents there are."""
        return 0 if self._scratch is None else self._scratch.nbytes

    def reset(self, generator: torch.Generator) -> None:
        """Everybody back to the start, with a new body and a new command."""
        _to_start(self.state)
        for row, (low, high) in zip((self.mass, self.drag, self.thrust), DRAWN, strict=True):
            row.uniform_(low, high, generator=generator)
        self.pick.random_(0, PICKS, generator=generator)

    def targets(self, agents: slice) -> Tensor:
        """What the agents are told: vx, vy, vz and yaw rate, [n, 4]."""
        return self._table[self.pick[agents].long()]

    def step(self, actions: Tensor, agents: slice, out: Tensor) -> Tensor:
        """Fly the actions [n, 4] for ten substeps.

        Writes the accelerations an IMU feels into ``out`` [n, 10, 3], of any float type and strides. Returns rewards [n].
        """
        low, count = self._range(agents)
        _expect("actions", actions, (count, ACTIONS))
        _expect("out", out, (count, SUBSTEPS, 3), floating=True)
        rewards = torch.empty(count, device=self.device)
        with torch.no_grad():
            if self._kernel is not None:
                self._kernel(self.state, self.pick, low, actions, out, rewards)
                return rewards
            for start, width in self._blocks(count):
                here, there = slice(start, start + width), slice(low + start, low + start + width)
                lanes = self._lanes(width)
                lanes.load(self.state[:, there])
                lanes.fly(actions[here])
                lanes.store(out[here])
                lanes.judge(self.pick[there], self._table.T, rewards[here])
                lanes.unload(self.state[:, there])
        return rewards

    def replay(self, actions: Tensor, agents: slice, out: Tensor | None = None) -> Tensor:
        """The accelerations [n, T, 10, 3] of an episode, flown again from its actions [n, T, 4].

        They are those that ``step`` gave since the last reset, bit for bit. The agents themselves do not move.
        """
        low, count = self._range(agents)
        steps = actions.shape[1] if actions.dim() == 3 else 0
        _expect("actions", actions, (count, steps, ACTIONS))
        if out is None:
            out = torch.empty(count, steps, SUBSTEPS, 3, device=self.device)
        _expect("out", out, (count, steps, SUBSTEPS, 3), floating=True)
        with torch.no_grad():
            if self._kernel is not None:
                state = self.state[:, low : low + count].clone()
                _to_start(state)
                for step in range(steps):
                    self._kernel(state, None, 0, actions[:, step], out[:, step], None)
                return out
            for start, width in self._blocks(count):
                here, there = slice(start, start + width), slice(low + start, low + start + width)
                lanes = self._lanes(width)
                lanes.load(self.state[:, there])
                _to_start(lanes.inputs)
                for step in range(steps):
                    lanes.fly(actions[here, step])
                    lanes.store(out[here, step])
        return out

    def _range(self, agents: slice) -> tuple[int, int]:
        low, high, by = agents.indices(self.agents)
        if by != 1:
            raise UsageError(f"agents: expected a slice of neighbours, got every {by}th")
        return low, max(high - low, 0)

    def _blocks(self, count: int) -> Iterator[tuple[int, int]]:
        """Starts and widths of equal blocks, as few as the scratch allows."""
        most = CUDA_BLOCK if self.device.type == "cuda" else BLOCK
        if not count:
            return
        blocks = -(-count // most)
        width = _padded(-(-count // blocks))
        for start in range(0, count, width):
            yield start, min(width, count - start)

    def _lanes(self, width: int) -> Lanes:
        if self._scratch is None:
            most = CUDA_BLOCK if self.device.type == "cuda" else BLOCK
            self._scratch = Scratch(min(most, _padded(self.agents)), self.device)
        return self._scratch.lanes(width)


def commands() -> Tensor:
    """What each pick tells an agent: 0 and 1 to hover, 2 to 9 to go ±1 along vx, vy, vz or yaw rate."""
    table = torch.zeros(PICKS, TARGETS)
    for pick in range(2, PICKS):
        table[pick, (pick - 2) // 2] = 1 - 2 * (pick % 2)
    return table


def _to_start(state: Tensor) -> None:
    state[:MOVING] = 0
    state[2] = HEIGHT


def _padded(count: int) -> int:
    return -(-count // LANES) * LANES


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...], *, floating: bool = False) -> None:
    """Refuse what would broadcast, or be cut to whole numbers, without a word."""
    if tuple(tensor.shape) != shape:
        raise UsageError(f"{name}: expected the shape {list(shape)}, got {list(tensor.shape)}")
    if floating and not tensor.dtype.is_floating_point:
        raise UsageError(f"{name}: expected a float type, got {tensor.dtype}; scale and round outside")


def _find_kernel(device: torch.device) -> Callable[..., None] | None:
    """The fused step, where it can run."""
    if device.type != "cuda":
        return None
    try:
        from rlmem.swarm.physics_cuda import fly
    except ImportError:  # torch for CUDA comes with Triton on Linux, not everywhere
        return None
    return fly


class Scratch:
    """Memory for one block, seen as blocks of any width up to its own."""

    def __init__(self, width: int, device: torch.device) -> None:
        self.floats = torch.zeros(Lanes.ROWS * width, device=device)
        self.index = torch.zeros(width, dtype=torch.int64, device=device)
        # A number in Python becomes a tensor at every use, which costs as much as the operation.
        self.numbers = torch.tensor([DT, 20.0, 0.1, 0.0, -2.0], device=device)
        self._views: dict[int, Lanes] = {}

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.floats.nbytes + self.index.nbytes + self.numbers.nbytes)

    def lanes(self, count: int) -> Lanes:
        """The block for so many agents; its tensors are views of this memory."""
        width = _padded(count)
        if width not in self._views:
            self._views[width] = Lanes(self, width)
        lanes = self._views[width]
        lanes.count = count
        return lanes


class Lanes:
    """One block in flight. All views are made once: on the CPU making them would cost as much as computing."""

    #: Float rows: inputs, sines, cosines, accelerations and three of help; then those of a substep and of the reward.
    ROWS = 16 + 4 * 3 * TURNED + 3 + 3 + 2 + 1 + TARGETS

    def __init__(self, scratch: Scratch, width: int) -> None:
        self.width = self.count = width
        free = scratch.floats

        def take(*shape: int) -> Tensor:
            nonlocal free
            size = math.prod(shape) * width
            taken, free = free[:size], free[size:]
            return taken.view(*shape, width)

        self.inputs = take(16)
        self.pos, self.vel, self.ang = self.inputs[0:3], self.inputs[3:6], self.inputs[6:9]
        self.mass, self.drag, self.thrust, self.power = self.inputs[9:13]
        self.rates = self.inputs[13:16]
        self.sin, self.cos = take(3, TURNED), take(3, TURNED)
        self.angles_at = tuple(self.cos.unbind(1))  # where cosines will be
        self.trig = (*self.cos, *self.sin)
        # Here the axis comes after the substep, as in the output, so that a copy sees both as one dimension.
        self.acc = take(TURNED, 3)
        self.acc_at = self.acc.unbind(0)
        self.axes = self.acc.unbind(1)
        self.help = take(3, TURNED).unbind(0)
        self.move, self.gravity, self.flat, (self.lift,), self.target = (
            take(3),
            take(3),
            take(2),
            take(1),
            take(TARGETS),
        )
        self.pos_flat, self.height, self.yaw_rate = self.pos[:2], self.pos[2], self.rates[2]
        self.tilt, (self.east, self.north) = self.ang[:2], self.flat.unbind(0)
        self.index = scratch.index[:width]
        self.dt, self.power_of_one, self.tenth, self.zero, self.minus_two = scratch.numbers.unbind(0)

    def load(self, state: Tensor) -> None:
        """Take agents in; what pads them is any sane drone."""
        if self.count < self.width:
            self.inputs[:, self.count :] = 1
        self.inputs[: len(state), : self.count].copy_(state)
        self.gravity.zero_()[2] = GRAVITY  # anew: a block of another width may have lain here

    def unload(self, state: Tensor) -> None:
        """Write back what moved."""
        state[:MOVING].copy_(self.inputs[:MOVING, : self.count])

    def fly(self, actions: Tensor) -> None:
        """Ten substeps; afterwards ``acc`` is what the IMU feels, and in its last row the velocity, as the body sees it."""
        self.inputs[12:, : self.count].copy_(actions.T)
        # Angles of all substeps, then all their sines and cosines at once.
        delta, angles = torch.mul(self.rates, self.dt, out=self.move), self.ang
        for after in self.angles_at[:-1]:
            angles = torch.add(angles, delta, out=after)
        self.angles_at[-1].copy_(angles)
        self.ang.copy_(angles)
        torch.sin(self.cos, out=self.sin)
        self.cos.cos_()
        # Thrust along the body's z axis, seen from the world.
        lift = torch.mul(self.power, self.power_of_one, out=self.lift).mul_(self.thrust).div_(self.mass)
        cr, cp, cy, sr, sp, sy = self.trig
        x, y, z = self.axes
        lean = torch.mul(sp, cr, out=self.help[0])
        torch.mul(cy, lean, out=x).addcmul_(sy, sr).mul_(lift)
        torch.mul(sy, lean, out=y).addcmul_(cy, sr, value=-1).mul_(lift)
        torch.mul(cp, cr, out=z).mul_(lift)
        # The only part in which a substep needs the one before.
        vel, pos, height = self.vel, self.pos, self.height
        for acc in self.acc_at[:-1]:
            acc.addcmul_(self.drag, vel, value=-1)
            vel.add_(torch.sub(acc, self.gravity, out=self.move), alpha=DT)
            pos.add_(vel, alpha=DT)
            torch.mul(self.pos_flat, self.tenth, out=self.flat)
            ground = torch.addcmul(self.zero, self.east.sin_(), self.north.cos_(), value=5, out=self.lift)
            # Above the ground 1, else 0: a product is several times faster than a masked fill.
            vel.mul_(torch.ge(height, ground, out=self.north))
            torch.maximum(height, ground, out=height)
        self.acc_at[-1].copy_(vel)
        _to_body(self.trig, self.axes, self.help)

    def store(self, out: Tensor) -> None:
        """Write the accelerations [n, 10, 3]."""
        out.copy_(self.acc[:-1, :, : self.count].permute(2, 0, 1))

    def judge(self, pick: Tensor, table: Tensor, rewards: Tensor) -> None:
        """The rewards of the step flown."""
        self.index[: self.count].copy_(pick)
        torch.index_select(table, 1, self.index, out=self.target)
        x, y, z = torch.sub(self.acc_at[-1], self.target[:3], out=self.move).square_()
        reward = x.add_(y).add_(z).mul_(self.minus_two).exp_()
        yaw = torch.sub(self.yaw_rate, self.target[3], out=self.lift).square_().mul_(self.minus_two).exp_()
        roll, pitch = torch.abs(self.tilt, out=self.flat)
        tipped = torch.maximum(roll, pitch, out=y).gt_(1)
        tilt = self.flat.square_()[0].add_(pitch)
        reward.add_(yaw, alpha=0.5).sub_(tilt, alpha=0.01).sub_(tipped, alpha=0.1).add_(0.1)
        rewards.copy_(reward[: self.count])


def _to_body(trig: tuple[Tensor, ...], axes: tuple[Tensor, ...], turned: tuple[Tensor, ...]) -> None:
    """Turn vectors in place from the world into the body: back by yaw, then by pitch, then by roll."""
    cr, cp, cy, sr, sp, sy = trig
    (x, y, z), (ahead, left, up) = axes, turned
    torch.mul(cy, x, out=ahead).addcmul_(sy, y)
    torch.mul(cy, y, out=left).addcmul_(sy, x, value=-1)
    torch.mul(sp, ahead, out=up).addcmul_(cp, z)
    torch.mul(cp, ahead, out=x).addcmul_(sp, z, value=-1)
    torch.mul(cr, left, out=y).addcmul_(sr, up)
    torch.mul(cr, up, out=z).addcmul_(sr, left, value=-1)
