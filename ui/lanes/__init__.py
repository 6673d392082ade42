"""The lanes component: several ways to batch, one above the other, on one play head. Its JavaScript
is in web/lanes."""

from ui.component import component, skeleton

_mount = component("lanes", skeleton(420, "Getting the lanes ready"))


def lanes(packet: bytes, *, key: str) -> None:
    """Mount the lanes; `packet` comes from `packing.pack`."""
    _mount(key=key, data=packet)
