"""Files that a process maps: what the kernel can take back, and what lies in memory."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

import numpy as np
import pytest

from rlmem.agent import mapped, naming, proc
from rlmem.agent.state import State

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps")
MIB = 1 << 20


@pytest.fixture
def on_disk() -> Path:
    for folder in (tempfile.gettempdir(), "/var/tmp", "."):
        if not mapped.is_in_ram(str(Path(folder).resolve()), mapped.file_systems()):
            return Path(tempfile.mkdtemp(dir=folder)).resolve()
    pytest.skip("every folder lies in memory")


def row(path: Path) -> dict[str, object]:
    return next(row for row in mapped.describe() if row["file"] == str(path))


def test_written_pages_of_a_file_are_no_part_of_a_reading(on_disk: Path, tmp_path: Path) -> None:
    state = State({"result": str(tmp_path / "result"), "time_s": 1})
    before = state.reading()
    store = np.memmap(on_disk / "frames.dat", dtype=np.uint8, mode="w+", shape=(100_000, 84, 84))
    store[:8000] = 7
    found = row(on_disk / "frames.dat")
    assert found["nbytes"] == -(-100_000 * 84 * 84 // proc.PAGE) * proc.PAGE
    assert found["resident"] >= 8000 * 84 * 84
    assert not found["in_ram"]
    after = state.reading()
    assert after["files"] - before["files"] >= 8000 * 84 * 84
    assert abs(after["tree"] - before["tree"]) < 8 * MIB
    state.facts["files"] = [found]
    naming.name(state)
    assert found["path"] == "store"


def test_a_file_in_memory_is_memory(tmp_path: Path) -> None:
    folder = Path("/dev/shm")
    if not folder.is_dir() or not mapped.is_in_ram("/dev/shm/x", mapped.file_systems()):
        pytest.skip("no /dev/shm")
    state = State({"result": str(tmp_path / "result"), "time_s": 1})
    before = state.reading()
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.truncate(64 * MIB)
        with mmap.mmap(file.fileno(), 64 * MIB) as view:
            view[: 16 * MIB] = bytes(16 * MIB)
            found = row(Path(file.name))
            assert found["in_ram"]
            assert (found["nbytes"], found["resident"]) == (64 * MIB, 16 * MIB)
            assert state.reading()["tree"] - before["tree"] > 12 * MIB


def test_a_private_mapping_and_shared_memory_of_no_file_are_not_listed(on_disk: Path) -> None:
    path = on_disk / "weights.dat"
    path.write_bytes(bytes(4 * MIB))
    copied = np.memmap(path, dtype=np.uint8, mode="c")
    copied[:] = 1
    anonymous = mmap.mmap(-1, 4 * MIB)
    assert str(path) not in {each["file"] for each in mapped.describe()}
    anonymous.close()


def test_the_deepest_mount_of_a_file_counts() -> None:
    mounted = [("/data/ram", "tmpfs"), ("/data", "ext4"), ("/", "overlay")]
    assert mapped.is_in_ram("/data/ram/frames.dat", mounted)
    assert not mapped.is_in_ram("/data/ramps.dat", mounted)
    assert not mapped.is_in_ram("/home/frames.dat", mounted)
