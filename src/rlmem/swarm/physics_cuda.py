"""A step of the drones as one CUDA kernel: ten substeps in registers, an agent a lane.

The physics of ``physics.py``, with the same formulas. Imports Triton, which torch for CUDA brings along on Linux: import
this module only where it is wanted.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

#: Agents of one program. Four warps of 32 lanes, one agent each.
BLOCK = 128


@triton.jit
def _fly(  # type: ignore[no-untyped-def]  # noqa: PLR0915
    state_ptr,
    state_row,
    pick_ptr,
    actions_ptr,
    actions_agent,
    actions_value,
    out_ptr,
    out_agent,
    out_substep,
    out_axis,
    rewards_ptr,
    count,
    REWARDS: tl.constexpr,  # noqa: N803
    LANES: tl.constexpr,  # noqa: N803
):
    # Offsets in 64 bits: a store of a million agents has more than 2³¹ values.
    lane = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    here = lane < count
    row = tl.cast(state_row, tl.int64)
    mine = state_ptr + lane
    px = tl.load(mine, mask=here, other=0.0)
    py = tl.load(mine + row, mask=here, other=0.0)
    pz = tl.load(mine + 2 * row, mask=here, other=0.0)
    vx = tl.load(mine + 3 * row, mask=here, other=0.0)
    vy = tl.load(mine + 4 * row, mask=here, other=0.0)
    vz = tl.load(mine + 5 * row, mask=here, other=0.0)
    roll = tl.load(mine + 6 * row, mask=here, other=0.0)
    pitch = tl.load(mine + 7 * row, mask=here, other=0.0)
    yaw = tl.load(mine + 8 * row, mask=here, other=0.0)
    mass = tl.load(mine + 9 * row, mask=here, other=1.0)
    drag = tl.load(mine + 10 * row, mask=here, other=0.0)
    thrust = tl.load(mine + 11 * row, mask=here, other=0.0)
    act = actions_ptr + lane * actions_agent
    power = tl.load(act, mask=here, other=0.0).to(tl.float32)
    roll_rate = tl.load(act + actions_value, mask=here, other=0.0).to(tl.float32)
    pitch_rate = tl.load(act + 2 * actions_value, mask=here, other=0.0).to(tl.float32)
    yaw_rate = tl.load(act + 3 * actions_value, mask=here, other=0.0).to(tl.float32)

    lift = tl.div_rn(power * 20.0 * thrust, mass)
    roll_step, pitch_step, yaw_step = roll_rate * 0.01, pitch_rate * 0.01, yaw_rate * 0.01
    kind = out_ptr.dtype.element_ty
    to = out_ptr + lane * out_agent
    # Carried out of the loop for the reward.
    cr, sr, cp, sp, cy, sy = roll, roll, roll, roll, roll, roll
    for _ in range(10):  # not unrolled: ten times eight sines would not fit the instruction cache
        roll += roll_step
        pitch += pitch_step
        yaw += yaw_step
        cr, sr = tl.cos(roll), tl.sin(roll)
        cp, sp = tl.cos(pitch), tl.sin(pitch)
        cy, sy = tl.cos(yaw), tl.sin(yaw)
        lean = sp * cr
        ax = (cy * lean + sy * sr) * lift - drag * vx
        ay = (sy * lean - cy * sr) * lift - drag * vy
        az = cp * cr * lift - drag * vz
        # What the IMU feels: turned back by yaw, then by pitch, then by roll.
        ahead = cy * ax + sy * ay
        left = cy * ay - sy * ax
        up = sp * ahead + cp * az
        tl.store(to, (cp * ahead - sp * az).to(kind), mask=here)
        tl.store(to + out_axis, (cr * left + sr * up).to(kind), mask=here)
        tl.store(to + 2 * out_axis, (cr * up - sr * left).to(kind), mask=here)
        to += out_substep
        vx += ax * 0.01
        vy += ay * 0.01
        vz += (az - 9.81) * 0.01
        px += vx * 0.01
        py += vy * 0.01
        pz += vz * 0.01
        ground = 5.0 * tl.sin(px * 0.1) * tl.cos(py * 0.1)
        above = (pz >= ground).to(tl.float32)
        vx *= above
        vy *= above
        vz *= above
        pz = tl.maximum(pz, ground, propagate_nan=tl.PropagateNan.ALL)

    tl.store(mine, px, mask=here)
    tl.store(mine + row, py, mask=here)
    tl.store(mine + 2 * row, pz, mask=here)
    tl.store(mine + 3 * row, vx, mask=here)
    tl.store(mine + 4 * row, vy, mask=here)
    tl.store(mine + 5 * row, vz, mask=here)
    tl.store(mine + 6 * row, roll, mask=here)
    tl.store(mine + 7 * row, pitch, mask=here)
    tl.store(mine + 8 * row, yaw, mask=here)
    if REWARDS:
        # 0 and 1: hover; 2..9: ±1 along vx, vy, vz and yaw rate, even ones forward.
        pick = tl.load(pick_ptr + lane, mask=here, other=0).to(tl.int32)
        sign = 1.0 - 2.0 * (pick % 2).to(tl.float32)
        ahead = cy * vx + sy * vy
        left = cy * vy - sy * vx
        up = sp * ahead + cp * vz
        x = cp * ahead - sp * vz - tl.where(pick // 2 == 1, sign, 0.0)
        y = cr * left + sr * up - tl.where(pick // 2 == 2, sign, 0.0)
        z = cr * up - sr * left - tl.where(pick // 2 == 3, sign, 0.0)
        turning = yaw_rate - tl.where(pick // 2 == 4, sign, 0.0)
        tipped = ((tl.abs(roll) > 1.0) | (tl.abs(pitch) > 1.0)).to(tl.float32)
        reward = tl.exp(-2.0 * (x * x + y * y + z * z)) + 0.5 * tl.exp(-2.0 * (turning * turning))
        reward = reward - 0.01 * (roll * roll + pitch * pitch) - 0.1 * tipped + 0.1
        tl.store(rewards_ptr + lane, reward, mask=here)


def fly(state: Tensor, pick: Tensor | None, low: int, actions: Tensor, out: Tensor, rewards: Tensor | None) -> None:
    """Fly the agents from ``low`` on, as many as there are actions; without ``rewards`` these are left out."""
    count = len(actions)
    if not count:
        return
    # Without fused multiply-adds a value has the same bits whatever else a variant of the kernel computes or stores,
    # so that ``replay`` (no rewards) gives what ``step`` gave.
    options: dict[str, Any] = {"LANES": BLOCK, "num_warps": 4, "enable_fp_fusion": False}
    where = torch.cuda.device(state.device) if state.is_cuda else contextlib.nullcontext()
    with where:
        _fly[(triton.cdiv(count, BLOCK),)](
            state[:, low:],
            state.stride(0),
            state if pick is None else pick[low:],
            actions,
            *actions.stride(),
            out,
            *out.stride(),
            state if rewards is None else rewards,
            count,
            REWARDS=rewards is not None,
            **options,
        )
