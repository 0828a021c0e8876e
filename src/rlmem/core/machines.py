"""A table of named machines: cards, cloud shapes, laptops and boards whose memory is one pool.

A *card* is a GPU alone, so its ``ram_bytes`` is None. A *unified* machine has one pool for everything:
``ram_bytes`` is that pool and ``vram_bytes`` is None. Figures are what the vendor or the driver states,
before firmware, the operating system and a desktop session take their share.

>>> find_machine("RTX 4090").vram_bytes // 2**20
24564
>>> find_machine("aws-g5.xlarge").cores
4
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlmem.errors import UsageError, did_you_mean
from rlmem.units import GIB, MIB

#: Drivers from R510 on count the memory they reserve in the total, so a CUDA program gets a little less:
#: an H200 says 143771 MiB, and 143156 MiB to CUDA (measured, driver 580); a T4 said 15109 MiB before R510.
NVIDIA_SMI = "nvidia-smi total, MiB (driver R510 or later)"
#: The row's figure was not compared with a driver's output; the driver may report a few hundred MiB less or more.
UNCHECKED = "nominal size, not compared with the driver's total"
ROCM_SMI = "rocm-smi VRAM total"
VENDOR = "size the vendor states, not read on the machine"
#: Memory is sold in powers of two: a "16 GB" module holds 16 GiB.
FITTED = "memory fitted, before firmware and kernel reserve theirs"
COLAB = "MemTotal as users report it, about 12.7 GiB"
KAGGLE = "29 GB as commonly stated; reports range from 29 to 32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One named machine; ``vram_bytes`` is per GPU, and None means it has no such memory of its own."""

    name: str
    about: str
    ram_bytes: int | None
    vram_bytes: int | None
    gpus: int = 0
    unified: bool = False
    cores: int | None = None
    source: str

    @property
    def kind(self) -> str:
        """``card`` (a GPU alone), ``unified`` (one pool) or ``host`` (RAM, with or without GPUs)."""
        if self.unified:
            return "unified"
        return "card" if self.ram_bytes is None else "host"


def _card(name: str, about: str, mib: int, source: str = NVIDIA_SMI, gpus: int = 1) -> Machine:
    return Machine(name=name, about=about, ram_bytes=None, vram_bytes=mib * MIB, gpus=gpus, source=source)


_CARDS = (
    _card("gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", 11264, UNCHECKED),
    _card("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti", 11264),
    _card("rtx-3060-12gb", "NVIDIA GeForce RTX 3060 12 GB", 12288, UNCHECKED),
    _card("rtx-3070", "NVIDIA GeForce RTX 3070", 8192, UNCHECKED),
    _card("rtx-3080", "NVIDIA GeForce RTX 3080 10 GB", 10240, UNCHECKED),
    _card("rtx-3090", "NVIDIA GeForce RTX 3090", 24576, UNCHECKED),
    _card("rtx-3090-ti", "NVIDIA GeForce RTX 3090 Ti", 24564, UNCHECKED),
    _card("rtx-4060", "NVIDIA GeForce RTX 4060", 8188),
    _card("rtx-4060-ti-16gb", "NVIDIA GeForce RTX 4060 Ti 16 GB", 16380),
    _card("rtx-4070", "NVIDIA GeForce RTX 4070", 12282),
    _card("rtx-4070-ti-super", "NVIDIA GeForce RTX 4070 Ti SUPER", 16376),
    _card("rtx-4080", "NVIDIA GeForce RTX 4080", 16376),
    _card("rtx-4090", "NVIDIA GeForce RTX 4090", 24564),
    _card("rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", 16303),
    _card("rtx-5080", "NVIDIA GeForce RTX 5080", 16303),
    _card("rtx-5090", "NVIDIA GeForce RTX 5090", 32607),
    _card("rtx-a4000", "NVIDIA RTX A4000 (ECC off)", 16376, UNCHECKED),
    _card("rtx-a6000", "NVIDIA RTX A6000 (ECC off)", 49140),
    _card("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation (ECC off)", 49140, UNCHECKED),
    _card("p100", "NVIDIA Tesla P100 16 GB", 16384, UNCHECKED),
    _card("t4", "NVIDIA T4 16 GB (ECC on)", 15360, UNCHECKED),
    _card("v100-16gb", "NVIDIA Tesla V100 16 GB", 16384, UNCHECKED),
    _card("v100-32gb", "NVIDIA Tesla V100 32 GB", 32768, UNCHECKED),
    _card("a10", "NVIDIA A10 (ECC on)", 23028),
    _card("a10g", "NVIDIA A10G (ECC on)", 23028),
    _card("a40", "NVIDIA A40 (ECC on)", 46068),
    _card("l4", "NVIDIA L4 (ECC on)", 23034),
    _card("l40s", "NVIDIA L40S (ECC on)", 46068),
    _card("a100-40gb", "NVIDIA A100 40 GB", 40960, UNCHECKED),
    _card("a100-80gb", "NVIDIA A100 80 GB", 81920, UNCHECKED),
    _card("h100-80gb", "NVIDIA H100 80 GB", 81559),
    _card("h200", "NVIDIA H200 141 GB", 143771),
    _card("b200", "NVIDIA B200", 183359),
    _card("mi210", "AMD Instinct MI210", 65536, VENDOR),
    _card("mi250x", "AMD Instinct MI250X: two dies, each a GPU to the driver", 65520, ROCM_SMI, gpus=2),
    _card("mi300x", "AMD Instinct MI300X (one partition)", 196592, ROCM_SMI),
    _card("rx-7900-xtx", "AMD Radeon RX 7900 XTX", 24560, ROCM_SMI),
)
_VRAM = {card.name: card.vram_bytes for card in _CARDS}


def _host(
    name: str,
    about: str,
    gib: float,
    cores: int | None,
    gpu: str | None = None,
    gpus: int = 0,
    *,
    source: str = VENDOR,
) -> Machine:
    return Machine(
        name=name,
        about=about,
        ram_bytes=round(gib * GIB),
        cores=cores,
        vram_bytes=_VRAM[gpu] if gpu else None,
        gpus=gpus,
        source=source,
    )


# Amazon and Azure state GiB; Google's "GB" of machine memory is defined as 2³⁰ bytes.
_CLOUD = (
    _host("aws-c7i-large", "Amazon EC2 c7i.large", 4, 2),
    _host("aws-m7i-large", "Amazon EC2 m7i.large", 8, 2),
    _host("aws-r7i-large", "Amazon EC2 r7i.large", 16, 2),
    _host("aws-c7i-4xlarge", "Amazon EC2 c7i.4xlarge", 32, 16),
    _host("aws-m7i-4xlarge", "Amazon EC2 m7i.4xlarge", 64, 16),
    _host("aws-r7i-4xlarge", "Amazon EC2 r7i.4xlarge", 128, 16),
    _host("aws-g4dn-xlarge", "Amazon EC2 g4dn.xlarge (T4)", 16, 4, "t4", 1),
    _host("aws-g5-xlarge", "Amazon EC2 g5.xlarge (A10G)", 16, 4, "a10g", 1),
    _host("aws-g5-2xlarge", "Amazon EC2 g5.2xlarge (A10G)", 32, 8, "a10g", 1),
    _host("aws-g6-xlarge", "Amazon EC2 g6.xlarge (L4)", 16, 4, "l4", 1),
    _host("aws-g6e-xlarge", "Amazon EC2 g6e.xlarge (L40S)", 32, 4, "l40s", 1),
    _host("aws-p3-2xlarge", "Amazon EC2 p3.2xlarge (V100)", 61, 8, "v100-16gb", 1),
    _host("aws-p4d-24xlarge", "Amazon EC2 p4d.24xlarge (8 × A100 40 GB)", 1152, 96, "a100-40gb", 8),
    _host("aws-p5-48xlarge", "Amazon EC2 p5.48xlarge (8 × H100)", 2048, 192, "h100-80gb", 8),
    _host("gcp-e2-standard-4", "Google Compute Engine e2-standard-4", 16, 4),
    _host("gcp-n2-standard-8", "Google Compute Engine n2-standard-8", 32, 8),
    _host("gcp-n2-highmem-8", "Google Compute Engine n2-highmem-8", 64, 8),
    _host("gcp-g2-standard-4", "Google Compute Engine g2-standard-4 (L4)", 16, 4, "l4", 1),
    _host("gcp-g2-standard-8", "Google Compute Engine g2-standard-8 (L4)", 32, 8, "l4", 1),
    _host("gcp-a2-highgpu-1g", "Google Compute Engine a2-highgpu-1g (A100 40 GB)", 85, 12, "a100-40gb", 1),
    _host("gcp-a2-ultragpu-1g", "Google Compute Engine a2-ultragpu-1g (A100 80 GB)", 170, 12, "a100-80gb", 1),
    _host("azure-d8s-v5", "Azure Standard_D8s_v5", 32, 8),
    _host("azure-nc4as-t4-v3", "Azure Standard_NC4as_T4_v3 (T4)", 28, 4, "t4", 1),
    _host("azure-nc6s-v3", "Azure Standard_NC6s_v3 (V100; retired September 2025)", 112, 6, "v100-16gb", 1),
    _host("azure-nc24ads-a100-v4", "Azure Standard_NC24ads_A100_v4 (A100 80 GB)", 220, 24, "a100-80gb", 1),
    _host("colab-cpu", "Google Colab, free, no GPU", 12.7, 2, source=COLAB),
    _host("colab-t4", "Google Colab, free, T4", 12.7, 2, "t4", 1, source=COLAB),
    _host("kaggle-p100", "Kaggle notebook, P100", 29e9 / GIB, 4, "p100", 1, source=KAGGLE),
    _host("kaggle-2xt4", "Kaggle notebook, 2 × T4", 29e9 / GIB, 4, "t4", 2, source=KAGGLE),
    _host("github-actions", "GitHub Actions Linux or Windows runner, public repository", 16, 4),
    _host("github-actions-macos", "GitHub Actions macOS arm64 runner (virtual, no usable GPU)", 7, 3),
)

_DESKS = (
    _host("laptop-8gb", "a laptop or desktop with 8 GB and no GPU of its own", 8, None, source=FITTED),
    _host("laptop-16gb", "a laptop or desktop with 16 GB and no GPU of its own", 16, None, source=FITTED),
    _host("laptop-32gb", "a laptop or desktop with 32 GB and no GPU of its own", 32, None, source=FITTED),
    _host("laptop-64gb", "a laptop or desktop with 64 GB and no GPU of its own", 64, None, source=FITTED),
    _host("workstation-128gb", "a workstation with 128 GB and no GPU counted", 128, None, source=FITTED),
)


def _unified(name: str, about: str, gib: int, cores: int, gpus: int = 1) -> Machine:
    return Machine(
        name=name,
        about=about,
        ram_bytes=gib * GIB,
        cores=cores,
        vram_bytes=None,
        gpus=gpus,
        unified=True,
        source=VENDOR,
    )


_UNIFIED = (
    _unified("macbook-m1-8gb", "MacBook Air or Pro, M1, 8 GB", 8, 8),
    _unified("macbook-m1-16gb", "MacBook Air or Pro, M1, 16 GB", 16, 8),
    _unified("macbook-m2-24gb", "MacBook Air or Pro, M2, 24 GB", 24, 8),
    _unified("macbook-m3-max-36gb", "MacBook Pro, M3 Max (14 cores), 36 GB", 36, 14),
    _unified("macbook-m3-max-64gb", "MacBook Pro, M3 Max (16 cores), 64 GB", 64, 16),
    _unified("macbook-m3-max-128gb", "MacBook Pro, M3 Max (16 cores), 128 GB", 128, 16),
    _unified("mac-mini-m4-16gb", "Mac mini, M4, 16 GB", 16, 10),
    _unified("mac-studio-m2-ultra-192gb", "Mac Studio, M2 Ultra, 192 GB", 192, 24),
    _unified("dgx-spark", "NVIDIA DGX Spark, 128 GB", 128, 20),
    _unified("strix-halo-128gb", "AMD Ryzen AI Max+ 395, 128 GB (firmware decides the GPU's share)", 128, 16),
    _unified("jetson-nano-4gb", "NVIDIA Jetson Nano, 4 GB", 4, 4),
    _unified("jetson-orin-nano-8gb", "NVIDIA Jetson Orin Nano, 8 GB", 8, 6),
    _unified("jetson-agx-orin-64gb", "NVIDIA Jetson AGX Orin, 64 GB", 64, 12),
    _unified("raspberry-pi-4-4gb", "Raspberry Pi 4, 4 GB (its GPU is of no use to torch)", 4, 4, gpus=0),
    _unified("raspberry-pi-4-8gb", "Raspberry Pi 4, 8 GB (its GPU is of no use to torch)", 8, 4, gpus=0),
    _unified("raspberry-pi-5-8gb", "Raspberry Pi 5, 8 GB (its GPU is of no use to torch)", 8, 4, gpus=0),
)

#: Every machine rlmem knows by name.
MACHINES: tuple[Machine, ...] = (*_CARDS, *_CLOUD, *_DESKS, *_UNIFIED)
_BY_NAME = {machine.name: machine for machine in MACHINES}


def find_machine(name: str) -> Machine:
    """The machine of that name; case does not matter, and spaces, dots and underscores read as dashes."""
    key = re.sub(r"[\s._-]+", "-", name.strip().lower())
    if key not in _BY_NAME:
        hint = did_you_mean(key, _BY_NAME)
        advice = "give a name from the table of machines, or a size like 24GiB"
        raise UsageError(f"unknown machine {name!r}{hint}; {advice}")
    return _BY_NAME[key]
