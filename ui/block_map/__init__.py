"""The block map: KV memory step by step, on a canvas. A component like the timeline, whose modules
it borrows."""

from ui.component import component, skeleton

_mount = component("memory", skeleton(380, "Getting the memory ready"), borrows=["timeline"])


def block_map(packet: bytes, *, key: str) -> None:
    """Mount the map; `packet` is the work of `packing.pack`."""
    _mount(key=key, data=packet)
