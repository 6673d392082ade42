"""The crossover map: where splitting pays, over two choices. A job computes it with sim.sweep
behind the page, first coarse, then fine; it can be cancelled and is kept for all sessions."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from sim.results.words import plural
from sim.scenario.load import Scenario, ScenarioError
from sim.sweep.grid import axis_of
from sim.sweep.sweep import Row, run_sweep
from ui.disaggregation.ratio import LEAST
from ui.disaggregation.setup import BLOCK, Setup, co_located, disaggregated
from ui.text.suggested_fixes import refusal

LEAST_REQUESTS = 96  # of every run of the map
RATE = "workload.classes[0].arrivals.rate_per_s"
DEADLINE_S = 5.0  # of the machine's time, for one of them
WORKERS = 2
FACTORS = {"coarse": (0.25, 0.5, 1.0, 2.0, 4.0),
           "fine": (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)}  # fmt: skip
PROMPTS = {"coarse": (0.125, 0.25, 0.5, 1.0, 2.0),
           "fine": (0.125, 0.18, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """Goodput of both at one point, requests/s, None where it was refused; `budget`: with which the
    co-located servers reach theirs, tokens per step."""

    disaggregated: float | None
    co_located: float | None
    budget: int

    @property
    def gain(self) -> float | None:
        """(disaggregated - co-located) / larger of both; None where neither serves a request in
        time."""
        a, b = self.disaggregated or 0.0, self.co_located or 0.0
        return (a - b) / max(a, b) if max(a, b) > 0 else None

    @property
    def ahead(self) -> float:
        """By how many requests/s the disaggregated servers are ahead."""
        return (self.disaggregated or 0.0) - (self.co_located or 0.0)

    @property
    def text(self) -> str:
        """The gain in percent, in a few characters."""
        gain = self.gain
        if gain is None:
            return "none"
        return "0" if abs(gain) < 0.005 else f"{100 * gain:+.0f}".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Map:
    """Goodput over rate (across) and prompt length or ratio (down), in these words."""

    kind: str  # "prompt" or "ratio"
    grid: str  # "coarse" or "fine"
    rates: tuple[float, ...]
    down: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]  # [down][rate]


def rows_of(kind: str, grid: str, setup: Setup) -> list[tuple[str, Setup]]:
    """What stands on the left, and the setup of each row. Prompts too long for the model are left
    out, but the shortest, which then says so."""
    setup = replace(setup, requests=requests_of(setup))
    if kind == "prompt":
        lengths = [BLOCK * max(1, round(f * setup.prompt / BLOCK)) for f in PROMPTS[grid]]
        fit = [n for n in lengths if n + setup.output <= setup.most_tokens] or lengths[:1]
        return [(f"{n:,}", replace(setup, prompt=n)) for n in dict.fromkeys(fit)]
    total = max(LEAST, setup.servers)
    return [
        (f"{p}:{total - p}", replace(setup, prefill=p, decode=total - p)) for p in range(1, total)
    ]


def requests_of(setup: Setup) -> int:
    """Of every run of the map: the page's own number, but enough for queues to grow."""
    return max(setup.requests, LEAST_REQUESTS)


def rates_of(grid: str, setup: Setup) -> tuple[float, ...]:
    return tuple(float(f"{f * setup.rate:.2g}") for f in FACTORS[grid])


@dataclass
class Job:
    """A map on its way. Fields are written by its thread and read by the page's."""

    kind: str
    setup: Setup
    done: int = 0
    total: int = 1
    grid: str = "coarse"
    found: Map | None = None
    refusal: str = ""  # of some of its runs
    problem: str = ""  # why there is no map at all
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> "Job":
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    @property
    def running(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def run(self) -> None:
        """Both grids; what is done stays when it is cancelled or refused."""
        with ThreadPoolExecutor(WORKERS) as threads:
            for grid in ("coarse", "fine"):
                self.grid, self.done = grid, 0
                try:
                    found = self.compute(grid, threads)
                except ScenarioError as error:
                    self.problem = refusal(error)
                    return
                if found is None:
                    return
                self.found = found

    def compute(self, grid: str, threads: ThreadPoolExecutor) -> Map | None:
        """One grid; None where it was cancelled on the way."""
        rows, rates = rows_of(self.kind, grid, self.setup), rates_of(grid, self.setup)
        budgets = self.setup.budgets
        self.total = (1 + len(budgets)) * len(rows) * len(rates)
        cells = []
        for _, setup in rows:
            bases = [disaggregated(setup), *(co_located(replace(setup, budget=b)) for b in budgets)]
            found = [self.goodputs(base, rates, threads) for base in bases]
            if any(len(values) < len(rates) for values in found):
                return None
            cells.append(tuple(cell(values, budgets) for values in zip(*found, strict=True)))
        if all(here.disaggregated is None for row in cells for here in row):
            self.problem = self.refusal
            return None
        return Map(self.kind, grid, rates, tuple(name for name, _ in rows), tuple(cells))

    def goodputs(
        self, base: Scenario, rates: Sequence[float], threads: ThreadPoolExecutor
    ) -> list[float | None]:
        """Goodput at each rate; fewer values where it was cancelled."""
        before = self.done

        def tell(done: int, total: int) -> None:
            self.done = before + done

        sweep = run_sweep(
            base, [axis_of(base, RATE, rates)], executor=threads, deadline_s=DEADLINE_S,
            progress=tell, cancelled=self.stop.is_set,
        )  # fmt: skip
        self.refusal = next(
            (row.reason or "" for row in sweep.rows if not row.summary), self.refusal
        )
        return [goodput(row) for row in sweep.rows]


def cell(values: Sequence[float | None], budgets: Sequence[int]) -> Cell:
    """A point from the goodput disaggregated, and co-located with each of these budgets."""
    co_located = [value or 0.0 for value in values[1:]]
    best = max(co_located)
    known = any(value is not None for value in values[1:])
    return Cell(values[0], best if known else None, budgets[co_located.index(best)])


def goodput(row: Row) -> float | None:
    return None if row.summary is None else row.summary["goodput_rps"]


# --- in words -------------------------------------------------------------------------------------


def sentence(found: Map) -> str:
    """Where splitting pays, and where it does not."""
    told = [
        (cell, found.down[j], found.rates[i])
        for j, row in enumerate(found.cells)
        for i, cell in enumerate(row)
        if cell.gain is not None
    ]
    if not told:
        return "No request is served within the limits anywhere on this map."
    wins = [point for point in told if (point[0].gain or 0) > 0.01]
    losses = [point for point in told if (point[0].gain or 0) < -0.01]
    counted = (
        f"Of {plural(len(told), 'point')} disaggregated is ahead in {len(wins)}, co-located in "
        f"{len(losses)}"
    )
    parts = [counted + ("" if wins or losses else ": they serve the same") + "."]
    if wins and found.kind == "prompt":
        lengths = [int(down.replace(",", "")) for _, down, _ in wins]
        parts.append(
            f"Disaggregated is ahead with prompts of {min(lengths):,} to {max(lengths):,} tokens."
        )
    if wins:
        parts.append(
            f"Disaggregated wins most at {place(max(wins, key=lambda p: p[0].ahead), found)}."
        )
    if losses:
        worst = min(losses, key=lambda point: point[0].ahead)
        parts.append(f"Co-located wins most at {place(worst, found)}.")
    return " ".join(parts)


def place(point: tuple[Cell, str, float], found: Map) -> str:
    """A point of the map with both goodputs."""
    cell, down, rate = point
    where = f"{down} prompt tokens" if found.kind == "prompt" else f"{down} servers"
    return (
        f"{where} and {rate:g} requests/s ({cell.disaggregated or 0:.2f} against "
        f"{cell.co_located or 0:.2f} requests/s within the limits)"
    )
