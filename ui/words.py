"""Short texts about a page's settings, with their figures marked."""

from sim.scenario.load import Scenario
from ui import machines
from ui.choice import Run
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
    what, where = machines.said(settings.model, settings.gpu)
    return [engine, [(what, ""), (where, True)]]


def caption(run: Run, base: Scenario) -> str:
    """What stands under a saved picture: enough to know what it shows."""
    settings, dials = run.settings, run.dials
    server = "step times of the linear toy"
    if settings.model is not None and settings.gpu is not None:
        server = "".join(machines.said(settings.model, settings.gpu))
    chunking = "" if settings.chunking else ", chunking off"
    cap = f", cap {count(dials.cap)}" if dials.cap else ""
    name = base.name or run.preset
    return (
        f"Batchscope, simulated: {name}; {server}; vLLM V1, budget {count(dials.budget)}{cap}"
        f"{chunking}; seed {settings.seed}"
    )
