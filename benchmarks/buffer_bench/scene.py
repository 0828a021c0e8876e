"""A small robot's camera: a room with textured walls, floor and things in it, rendered by MuJoCo as the robot walks about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

SIDE = 84
ROOM = 3.0  # metres from the middle to a wall
STEP_S = 0.05
JOINTS = 8
FACTS = 31  # 8 positions, 8 speeds, 8 last commands, 4 of orientation, 3 of rotation
HEIGHT = 0.12
THINGS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step shows: the observation, what was done and earned on the way there, and whether the episode ended."""

    image: np.ndarray
    vector: np.ndarray
    action: np.ndarray
    reward: float
    terminated: bool
    first: bool


def smooth_noise(rng: np.random.Generator, side: int, octaves: tuple[int, ...]) -> np.ndarray:
    """A grey picture in 0..1, cloudy at several scales: what wood, plaster and carpet look like to a small camera."""
    import cv2

    picture = np.zeros((side, side), np.float32)
    for octave in octaves:
        coarse = rng.random((octave, octave), dtype=np.float32)
        picture += cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC) / octave**0.5
    picture -= picture.min()
    return picture / picture.max()


def texture(rng: np.random.Generator, colour: tuple[int, int, int], contrast: float) -> bytes:
    """A PNG of a surface."""
    import cv2

    shade = 1 - contrast * smooth_noise(rng, 512, (4, 16, 64, 128))
    picture = np.clip(np.array(colour[::-1], np.float32) * shade[..., None], 0, 255).astype(np.uint8)
    return bytes(cv2.imencode(".png", picture)[1])


def room(rng: np.random.Generator) -> tuple[str, dict[str, bytes]]:
    """The scene as MuJoCo reads it, and its pictures."""
    surfaces = {"floor": ((150, 115, 80), 0.5), "wall": ((190, 185, 170), 0.3), "thing": ((220, 220, 220), 0.45)}
    assets = {f"{name}.png": texture(rng, colour, contrast) for name, (colour, contrast) in surfaces.items()}
    things = []
    for kind in rng.choice(["box", "cylinder", "sphere"], THINGS):
        x, y = rng.uniform(-0.85 * ROOM, 0.85 * ROOM, 2)
        size = rng.uniform(0.06, 0.22, 3)
        rgba = " ".join(f"{part:.2f}" for part in (*rng.uniform(0.25, 1, 3), 1))
        lies = size[2] if kind == "box" else size[0] if kind == "sphere" else size[1]
        moves = "<freejoint/>" if kind == "sphere" else ""
        things.append(
            f'<body pos="{x:.3f} {y:.3f} {lies:.3f}">{moves}<geom type="{kind}" material="thing" rgba="{rgba}" '
            f'size="{size[0]:.3f} {size[1]:.3f} {size[2]:.3f}" density="40"/></body>'
        )
    walls = "".join(
        f'<geom type="box" material="wall" pos="{x * ROOM} {y * ROOM} 0.6" size="{sx} {sy} 0.6"/>'
        for x, y, sx, sy in ((1, 0, 0.05, ROOM), (-1, 0, 0.05, ROOM), (0, 1, ROOM, 0.05), (0, -1, ROOM, 0.05))
    )
    return (
        f"""<mujoco>
      <option timestep="0.01"/>
      <visual><global offwidth="{SIDE}" offheight="{SIDE}"/><quality shadowsize="1024"/><map znear="0.005"/></visual>
      <asset>
        <texture name="sky" type="skybox" builtin="gradient" rgb1="0.75 0.8 0.9" rgb2="0.4 0.45 0.6" width="128" height="128"/>
        <texture name="floor" type="2d" file="floor.png"/>
        <texture name="wall" type="2d" file="wall.png"/>
        <texture name="thing" type="2d" file="thing.png"/>
        <material name="floor" texture="floor" texrepeat="3 3" reflectance="0.05"/>
        <material name="wall" texture="wall" texuniform="true"/>
        <material name="thing" texture="thing" texuniform="true" specular="0.4"/>
      </asset>
      <worldbody>
        <light pos="0.8 -0.6 3.5" dir="-0.2 0.15 -1" diffuse="0.7 0.7 0.65" castshadow="true"/>
        <light pos="-2 2 3" dir="0.4 -0.4 -1" diffuse="0.3 0.3 0.35" castshadow="false"/>
        <geom type="plane" size="{ROOM} {ROOM} 0.1" material="floor"/>
        {walls}{"".join(things)}
        <body name="head" mocap="true" pos="0 0 {HEIGHT}"><camera name="eye" fovy="62" mode="fixed"/></body>
      </worldbody>
    </mujoco>""",
        assets,
    )


def quaternion(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """The orientation of a MuJoCo camera (it looks along -z) on a body that faces x."""
    import mujoco

    total = np.array([0.5, 0.5, -0.5, -0.5])
    for axis, angle in (((1, 0, 0), roll), ((0, 1, 0), pitch), ((0, 0, 1), yaw)):
        turn, product = np.zeros(4), np.zeros(4)
        mujoco.mju_axisAngle2Quat(turn, np.array(axis, float), angle)
        mujoco.mju_mulQuat(product, turn, total)
        total = product
    return total


def walk(seed: int) -> Iterator[Step]:
    """Endless steps; an episode terminates at a bump. The caller decides on time limits: ``send(True)`` starts anew."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    import mujoco

    rng = np.random.default_rng(seed)
    xml, assets = room(rng)
    model = mujoco.MjModel.from_xml_string(xml, assets)
    data = mujoco.MjData(model)
    renderer = mujoco.Renderer(model, SIDE, SIDE)
    solid = [number for number in range(model.ngeom) if model.geom_type[number] != mujoco.mjtGeom.mjGEOM_PLANE]
    while True:
        mujoco.mj_resetData(model, data)
        data.qvel[:] = rng.normal(0, 0.4, model.nv)
        x, y = rng.uniform(-0.5 * ROOM, 0.5 * ROOM, 2)
        yaw, turn, speed, phase = rng.uniform(-np.pi, np.pi), 0.0, 0.2, rng.uniform(0, 2 * np.pi)
        joints, action, first, reward = np.zeros(JOINTS), np.zeros(JOINTS, np.float32), True, 0.0
        while True:
            before, sway = joints, 0.02 * np.sin(phase)
            joints = 0.5 * np.sin(phase + np.arange(JOINTS) * np.pi / 4) + 0.1 * action
            roll, pitch = sway + rng.normal(0, 0.003), 0.03 * np.cos(2 * phase) + 0.05
            data.mocap_pos[0] = x, y, HEIGHT + 0.006 * np.sin(2 * phase)
            data.mocap_quat[0] = quaternion(roll, pitch, yaw)
            mujoco.mj_step(model, data, nstep=int(STEP_S / 0.01))
            renderer.update_scene(data, camera="eye")
            places = data.geom_xpos[solid][:, :2]
            reach = model.geom_rbound[solid] * (model.geom_rbound[solid] < 1)
            bumped = max(abs(x), abs(y)) > ROOM - 0.15 or bool(
                (np.hypot(places[:, 0] - x, places[:, 1] - y) < reach + 0.05).any()
            )
            spin = np.array((roll, pitch, turn)) + rng.normal(0, 0.02, 3)
            facts = (joints, (joints - before) / STEP_S, action, (np.sin(yaw), np.cos(yaw), roll, pitch), spin)
            vector = np.concatenate(facts) + rng.normal(0, 0.002, FACTS)
            image = np.ascontiguousarray(renderer.render().transpose(2, 0, 1))
            again = yield Step(
                image=image, vector=vector.astype(np.float32), action=action,
                reward=reward, terminated=bumped and not first, first=first,
            )  # fmt: skip
            if again or (bumped and not first):
                break
            first = False
            turn = float(np.clip(0.9 * turn + rng.normal(0, 0.25), -1.2, 1.2))
            speed = float(np.clip(speed + rng.normal(0, 0.02), 0.05, 0.4))
            yaw, phase = yaw + turn * STEP_S, phase + 2 * np.pi * 1.5 * STEP_S
            x, y = x + speed * np.cos(yaw) * STEP_S, y + speed * np.sin(yaw) * STEP_S
            action = np.clip(0.8 * action + rng.normal(0, 0.3, JOINTS), -1, 1).astype(np.float32)
            reward = speed * STEP_S
