"""Short texts about a page's settings, with their figures marked."""

from sim import catalog
from ui.runs import Picture
from ui.settings import Settings
from ui.units import count

Line = list[tuple[str, str | bool]]


def settings(settings: Settings, picture: Picture | None) -> list[Line]:
    """Two lines beside the dials: what else the run depends on. Figures are bold."""
    seqs = settings.max_num_seqs or (picture.max_num_seqs if picture else None)
    auto = " (auto)" if settings.max_num_seqs is None else ""
    engine: Line = [("Chunked prefill ", ""), ("on" if settings.chunking else "off", True)]
    engine += [(" · max seqs ", ""), ((count(seqs) if seqs else "auto"), True), (auto, "")]
    if settings.model is None or settings.gpu is None:
        return [engine, [("Step times: ", ""), ("linear toy", True)]]
    gpu = catalog.gpu(settings.gpu).title.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return [engine, [(f"{settings.model}, bf16 on ", ""), (gpu, True)]]
