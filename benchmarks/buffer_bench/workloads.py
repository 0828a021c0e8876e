"""What is measured: recorded experience for replay buffers, a rollout, and two short trainings."""

from __future__ import annotations

from dataclasses import dataclass

from buffer_bench.recording import Layout, Shape

FRAME = Shape(shape=(84, 84), dtype="uint8")
CAMERA = Layout(
    units={"image": Shape(shape=(3, 84, 84), dtype="uint8"), "vector": Shape(shape=(31,), dtype="float32")},
    action=Shape(shape=(8,), dtype="float32"),
)

#: The recordings, by name.
RECORDED: dict[str, Layout] = {
    "pong": Layout(units={"obs": FRAME}, action=Shape(shape=(), dtype="int64"), actions=6, stack=4),
    "mspacman": Layout(units={"obs": FRAME}, action=Shape(shape=(), dtype="int64"), actions=9, stack=4),
    "camera": CAMERA,
    "camera-noise": CAMERA,
    "vector": Layout(
        units={"obs": Shape(shape=(376,), dtype="float32")}, action=Shape(shape=(17,), dtype="float32")
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One table of the results."""

    name: str
    title: str
    kind: str  # "replay", "rollout" or "learn"
    recording: str = ""
    capacity: int  # transitions a buffer holds
    quick: int  # the same with --quick

    @property
    def layout(self) -> Layout:
        """Of its recording."""
        return RECORDED[self.recording]

    @property
    def stores(self) -> dict[str, tuple[str, str]]:
        """What it is measured with: label and what pip calls it, by name, SB3 first."""
        from buffer_bench import learn, rollout, stores

        if self.kind == "replay":
            return {row.name: (row.label, row.install) for row in stores.rows_for(self.layout)}
        return {name: (row[0], row[1]) for name, row in (rollout if self.kind == "rollout" else learn).ROWS.items()}


WORKLOADS = {
    each.name: each
    for each in (
        Workload(name="pong", title="Atari Pong, 4×84×84 uint8 stack", kind="replay", recording="pong",
                 capacity=50_000, quick=4_000),
        Workload(name="mspacman", title="Atari MsPacman, 4×84×84 uint8 stack", kind="replay", recording="mspacman",
                 capacity=50_000, quick=4_000),
        Workload(name="camera", title="Robot camera, Dict {image 3×84×84 uint8, vector 31 float32}", kind="replay",
                 recording="camera", capacity=20_000, quick=1_500),
        Workload(name="camera-noise", title="Robot camera with sensor noise (σ = 3 on every pixel)", kind="replay",
                 recording="camera-noise", capacity=20_000, quick=1_500),
        Workload(name="vector", title="Humanoid, vector 376 float32, action 17", kind="replay", recording="vector",
                 capacity=200_000, quick=10_000),
        Workload(name="rollout", title="PPO rollout, 12×144×160 uint8 (4 RGB frames), 2 environments, batch 64", kind="rollout",
                 capacity=16_384, quick=512),
        Workload(name="sac", title="SAC learn() on the robot camera, batch 256, small network", kind="learn",
                 recording="camera", capacity=20_000, quick=1_500),
        Workload(name="dqn", title="DQN learn() on Pong, batch 32, a gradient step every 4th", kind="learn",
                 recording="pong", capacity=50_000, quick=4_000),
    )
}  # fmt: skip


def recorded(capacity: int) -> int:
    """Transitions to record for a buffer: a quarter more than it holds, so that a second lap puts other data in a place."""
    return capacity + capacity // 4
