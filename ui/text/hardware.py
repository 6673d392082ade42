"""Names of GPUs and links as a page shows them: products, never identifiers of the catalogue."""

from sim.hardware import catalog

WORDS = {
    "pcie": "PCIe", "nvlink": "NVLink", "rdma": "RDMA", "ethernet": "Ethernet", "tcp": "over TCP",
    "peer": "between GPUs", "infinity": "Infinity", "fabric": "Fabric", "ampere": "(Ampere)",
    "hopper": "(Hopper)", "blackwell": "(Blackwell)",
}  # fmt: skip


def gpu_title(name: str) -> str:
    """NVIDIA H100 SXM 80 GB."""
    return catalog.gpu(name).title


def gpu_name(name: str) -> str:
    """H100 SXM 80 GB: for the middle of a sentence."""
    return gpu_title(name).removeprefix("NVIDIA ").removeprefix("GeForce ")


def link_title(name: str) -> str:
    """A link with its bandwidth: PCIe 5.0 x16, 55 GB/s."""
    return f"{link_name(name)}, {catalog.link(name).bandwidth / 1e9:g} GB/s"


def link_name(name: str) -> str:
    """PCIe 5.0 x16, NVLink (Hopper), RDMA 100 Gb/s."""
    return " ".join(_word(part) for part in name.split("_"))


def _word(part: str) -> str:
    if part.startswith("gen") and part[3:].isdigit():
        return f"{part[3:]}.0"
    if part.endswith("g") and part[:-1].isdigit():
        return f"{part[:-1]} Gb/s"
    return WORDS.get(part, part)
