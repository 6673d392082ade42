"""The block map: KV memory step by step, on a canvas. Its JavaScript is in web/block_map."""

from ui.component import component, skeleton

_mount = component("block_map", skeleton(380, "Getting the memory ready"))


def block_map(packet: bytes, *, key: str) -> None:
    """Mount the map; `packet` is the work of `packing.pack`."""
    _mount(key=key, data=packet)
