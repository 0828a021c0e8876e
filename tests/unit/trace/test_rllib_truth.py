"""What a real run of RLlib held, by role: children belong to their actor, and shared pages count once."""

from __future__ import annotations

from rlmem.process.sampler import ProcessPeak, TreePeak
from rlmem.trace.rllib_truth import RoleTruth, by_role

MB = 1_000_000


def process(pid: int, anonymous: int, files: int, at_peak: int) -> ProcessPeak:
    return ProcessPeak(
        pid=pid,
        role="main",
        hwm_bytes=(anonymous + files) * MB,
        bytes_at_peak=at_peak * MB,
        anonymous_bytes=anonymous * MB,
        file_bytes=files * MB,
    )


def roles(*processes: ProcessPeak, owners: dict[str, str] | None = None) -> dict[str, RoleTruth]:
    named = {"1": "driver", "2": "env-runner", "3": "env-runner"}
    return {each.role: each for each in by_role(TreePeak(processes=processes), named, owners)}


def test_the_largest_actor_of_a_role_counts_with_its_part_of_the_library_pages() -> None:
    found = roles(process(1, 400, 100, 0), process(2, 300, 100, 0), process(3, 310, 100, 0), process(4, 50, 100, 0))

    assert (found["env-runner"].count, found["env-runner"].nbytes) == (2, 335 * MB)
    assert (found["driver"].nbytes, found["ray"].nbytes) == (425 * MB, 75 * MB)


def test_forked_children_count_with_their_actor_and_pages_they_share_once() -> None:
    found = roles(
        process(1, 400, 100, 410),
        process(2, 300, 100, 150),
        process(4, 290, 100, 70),  # of its own it has little
        process(5, 290, 100, 70),
        owners={"4": "2", "5": "2"},
    )

    assert found["env-runner"].nbytes == 290 * MB
    assert "ray" not in found
