"""The lanes component: several ways to batch, one above the other, on one play head. It borrows the
timeline's modules."""

from ui.component import component, skeleton

_mount = component("six_ways", skeleton(420, "Getting the ways ready"), borrows=["timeline"])


def lanes(packet: bytes, *, key: str) -> None:
    """Mount the lanes; `packet` is the work of `packing.pack`."""
    _mount(key=key, data=packet)
