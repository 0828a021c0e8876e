"""GPUs from a stand-in for NVML and from fake sysfs trees."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rlmem.process.gpus import Gpu, amd_gpus, amd_process, nvml_gpus, nvml_process, read_gpus


class Nvml:
    """The five calls of ``pynvml`` that are used; a None among the cards is one that cannot be asked."""

    class NVMLError(Exception):
        """As in pynvml."""

    def __init__(self, *cards: tuple[str | bytes, int, int] | None, driver: bool = True) -> None:
        self.cards, self.driver, self.open = cards, driver, False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own name, as are those below
        if not self.driver:
            raise self.NVMLError("driver not loaded")
        self.open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> tuple[str | bytes, int, int]:  # noqa: N802
        card = self.cards[index]
        if card is None:
            raise self.NVMLError("not supported")
        return card

    def nvmlDeviceGetMemoryInfo(self, handle: tuple[str | bytes, int, int]) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=handle[1], free=handle[2])

    def nvmlDeviceGetName(self, handle: tuple[str | bytes, int, int]) -> str | bytes:  # noqa: N802
        return handle[0]


def card(root: Path, name: str, **files: str) -> None:
    device = root / "sys/class/drm" / name / "device"
    device.mkdir(parents=True)
    for file, text in files.items():
        (device / file).write_text(text)


def test_each_nvidia_gpu_has_a_name_a_total_and_what_is_free() -> None:
    nvml = Nvml(("NVIDIA L4", 100, 60), (b"Tesla T4", 50, 50))
    assert nvml_gpus(nvml) == (
        Gpu(name="NVIDIA L4", total_bytes=100, free_bytes=60),
        Gpu(name="Tesla T4", total_bytes=50, free_bytes=50),
    )


def test_nvml_is_closed_again() -> None:
    nvml = Nvml(("NVIDIA L4", 100, 60))
    nvml_gpus(nvml)
    assert not nvml.open


def test_a_library_without_a_driver_means_no_gpus() -> None:
    assert nvml_gpus(Nvml(driver=False)) == ()


def test_a_gpu_that_cannot_be_asked_is_left_out() -> None:
    assert [gpu.name for gpu in nvml_gpus(Nvml(None, ("NVIDIA L4", 100, 60)))] == ["NVIDIA L4"]


def test_an_amd_gpu_is_read_from_sysfs(tmp_path: Path) -> None:
    card(tmp_path, "card1", mem_info_vram_total="1000\n", mem_info_vram_used="300\n", product_name="MI210\n")
    assert read_gpus(root=tmp_path) == (Gpu(name="MI210", total_bytes=1000, free_bytes=700),)


def test_amd_cards_come_in_number_order_and_connectors_are_no_cards(tmp_path: Path) -> None:
    for name in ("card10", "card2", "card2-DP-1"):
        card(tmp_path, name, mem_info_vram_total="1000\n", mem_info_vram_used="0\n")
    assert [gpu.name for gpu in amd_gpus(tmp_path)] == ["AMD GPU (card2)", "AMD GPU (card10)"]


@pytest.mark.parametrize("used", ["", "junk\n", "-1\n"])
def test_what_is_free_is_unknown_when_use_is_not_a_number(tmp_path: Path, used: str) -> None:
    card(tmp_path, "card0", mem_info_vram_total="1000\n", mem_info_vram_used=used)
    assert amd_gpus(tmp_path)[0].free_bytes is None


@pytest.mark.parametrize("total", ["", "0\n", "junk\n"])
def test_a_card_without_a_total_is_left_out(tmp_path: Path, total: str) -> None:
    card(tmp_path, "card0", mem_info_vram_total=total)
    assert amd_gpus(tmp_path) == ()


def test_a_machine_without_gpus_has_none(tmp_path: Path) -> None:
    assert read_gpus(root=tmp_path) == ()


def test_this_machine_can_be_asked() -> None:
    assert all(gpu.total_bytes > 0 for gpu in read_gpus())


class Running(Nvml):
    """Cards on which processes run."""

    def __init__(self, *cards: tuple[str | bytes, int, int] | None, running: dict[int, int | None]) -> None:
        super().__init__(*cards)
        self.running = running

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.running.items()]


def test_a_process_has_what_nvidias_driver_counts_for_it() -> None:
    nvml = Running(("NVIDIA L4", 100, 60), ("NVIDIA L4", 100, 60), None, running={7: 30, 8: None})
    assert nvml_process(nvml, 7) == {"NVIDIA L4": 30, "NVIDIA L4 #1": 30}
    assert nvml_process(nvml, 8) == {}
    assert nvml_process(nvml, 9) == {}
    assert nvml_process(Nvml(driver=False), 7) == {}


def test_a_process_has_what_amds_driver_says_of_its_open_files(tmp_path: Path) -> None:
    folder = tmp_path / "proc/7/fdinfo"
    folder.mkdir(parents=True)
    text = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t{}\ndrm-memory-vram:\t{} KiB\n"
    (folder / "3").write_text(text.format(11, 2048))
    (folder / "4").write_text(text.format(11, 2048))  # the same client, opened twice
    (folder / "5").write_text(text.format(12, 1024))
    (folder / "6").write_text("pos:\t0\nflags:\t02\n")
    assert amd_process(7, tmp_path) == {"AMD GPU (0000:03:00.0)": 3 << 20}
    assert amd_process(8, tmp_path) == {}
