"""Short texts about a page's settings, with their figures marked."""

from sim.scenario.load import Scenario
from ui.scenarios import gpu_choice
from ui.scenarios.run import Run
from ui.scenarios.settings import Settings
from ui.text.units import Parts, count


def settings(settings: Settings, max_num_seqs: int | None) -> list[Parts]:
    """Two lines beside the dials: what else the run depends on. Figures are bold.
    `max_num_seqs`: of the run, None where it is not known."""
    seqs = settings.max_num_seqs or max_num_seqs
    auto = " (auto)" if settings.max_num_seqs is None else ""
    engine: Parts = [("Chunked prefill ", ""), ("on" if settings.chunking else "off", True)]
    engine += [(" · max seqs ", ""), ((count(seqs) if seqs else "auto"), True), (auto, "")]
    if settings.model is None or settings.gpu is None:
        return [engine, [("Step times: ", ""), ("linear toy", True)]]
    what, where = gpu_choice.phrase(settings.model, settings.gpu)
    return [engine, [(what, ""), (where, True)]]


def caption(run: Run, base: Scenario) -> str:
    """What stands under a saved picture: enough to know what it shows."""
    settings, dials = run.settings, run.dials
    server = "step times of the linear toy"
    if settings.model is not None and settings.gpu is not None:
        server = "".join(gpu_choice.phrase(settings.model, settings.gpu))
    chunking = "" if settings.chunking else ", chunking off"
    cap = f", cap {count(dials.cap)}" if dials.cap else ""
    name = base.name or run.preset
    return (
        f"Batchscope, simulated: {name}; {server}; vLLM V1, budget {count(dials.budget)}{cap}"
        f"{chunking}; seed {settings.seed}"
    )
