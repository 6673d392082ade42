// The bar above the picture (play, step, speed, legend) and the one below it (axis, zoom, table).

const v = new URL(import.meta.url).search;
const [{ el, icon, say, term }, { SPEEDS, speedName }, { count, moment, limitOf }] = await Promise.all([
  import(`./dom.js${v}`), import(`./player.js${v}`), import(`./format.js${v}`),
]);

const PATHS = {
  first: "M1 1h2v10H1zM11 1v10L4 6z", back: "M9 1v10L2 6zM9.4 1H11v10H9.400z", play: "M2 1v10l9-5z",
  pause: "M2 1h3v10H2zM7 1h3v10H7z", forward: "M3 1v10l7-5zM1 1h1.600v10H1z", last: "M9 1h2v10H9zM1 1v10l7-5z",
};

export class Controls {
  // on: { toggle, step(by), first, last, speed(value), zoom(factor), whole, story, axis(name), table(bool), save, copy }
  constructor(on) {
    const button = (name, label, act, key) =>
      el("button", { type: "button", class: `btn btn-${name}`, "aria-label": label, title: `${label} (${key})`, onclick: act }, icon(PATHS[name]));
    this.play = button("play", "Play", on.toggle, "space");
    this.readout = el("span", { class: "readout" });
    this.speed = el("select", { "aria-label": "Speed", onchange: () => on.speed(+this.speed.value) },
      ...SPEEDS.map((value) => el("option", { value, text: speedName(value) })));
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" });
    this.top = el("div", { class: "bar", role: "group", "aria-label": "Play" },
      el("div", { class: "transport" },
        button("first", "First step", on.first, "Home"), button("back", "Step back", () => on.step(-1), "left arrow"), this.play,
        button("forward", "Step forward", () => on.step(1), "right arrow"), button("last", "Last step", on.last, "End")),
      this.readout, el("label", { class: "inline" }, "speed ", this.speed), this.legend);
    const text = (words, act, label = null) => el("button", { type: "button", class: "text", text: words, "aria-label": label, onclick: act });
    this.axes = ["time", "step"].map((name) => {
      const choice = text(name === "time" ? "Time" : "Steps", () => on.axis(name), `${name === "time" ? "Time" : "Steps"} on the axis`);
      choice.dataset.axis = name;
      return choice;
    });
    this.table = text("Table", () => on.table(this.table.getAttribute("aria-pressed") !== "true"));
    this.whole = text("Whole run", on.whole);
    this.copy = text("Copy link", on.copy);
    this.address = el("input", { class: "address", readonly: true, hidden: true, "aria-label": "The address of this view" });
    this.bottom = el("div", { class: "bar slim", role: "group", "aria-label": "View" },
      el("span", { class: "pair" }, ...this.axes),
      el("span", { class: "pair" }, text("−", () => on.zoom(1.6), "Zoom out"), text("+", () => on.zoom(1 / 1.6), "Zoom in")),
      this.whole, text("The story", on.story, "Zoom to the longest prompt"), el("span", { class: "spring" }), this.table,
      text("Save picture", on.save), this.copy, this.address);
    this.showTable(false);
  }

  showPlaying(playing) {
    this.play.replaceChildren(icon(playing ? PATHS.pause : PATHS.play));
    this.play.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.play.title = `${playing ? "Pause" : "Play"} (space)`;
  }

  showSpeed(speed) {
    this.speed.value = speed;
  }

  showAxis(axis) {
    for (const choice of this.axes) choice.setAttribute("aria-pressed", choice.dataset.axis === axis);
  }

  showTable(shown) {
    this.table.setAttribute("aria-pressed", shown);
    say(this.table, shown ? "Picture" : "Table");
  }

  showPlace(step, total, time) {
    this.readout.replaceChildren("step ", el("b", { text: count(step) }), ` of ${count(total)} · ${moment(time)}`);
  }

  // address: what could not be copied, null where it was.
  showCopied(address) {
    this.address.hidden = address === null;
    if (address !== null) {
      this.address.value = address;
      this.address.select();
      return;
    }
    say(this.copy, "Copied");
    setTimeout(() => say(this.copy, "Copy link"), 1600);
  }

  // shown: the controls that are left; null: all.
  limit(shown) {
    const left = (name) => !shown || shown.includes(name);
    this.top.querySelector(".transport").hidden = this.speed.parentElement.hidden = !left("play");
    this.bottom.hidden = !left("view");
  }

  showLegend(lanes, terms) {
    say(this.whole, lanes[0]?.overview ? "Whole window" : "Whole run");
    const has = { preempted: false, cached: false };
    for (const lane of lanes) {
      has.preempted ||= lane.wait_kind.includes(1);
      has.cached ||= lane.row_hits.some((n) => n > 0);
    }
    const items = [["prefill", "prefill chunk", "prefill"], ["decode", "decode token", "decode"],
      ["stall", `gap above ${lanes.length ? limitOf(lanes[0]) : "the limit"}`, "ITL"]];
    if (has.cached) items.push(["cached", "from the prefix cache"]);
    if (has.preempted) items.push(["preempted", "preempted"]);
    items.push(["waiting", "waiting"], ["unused", "unused"]);
    const written = JSON.stringify([items, terms]);
    if (written === this.legendWritten) return;
    this.legendWritten = written;
    this.legend.replaceChildren(...items.map(([tone, words, name]) =>
      el("li", {}, el("i", { class: `swatch swatch-${tone}` }), term(words, terms?.[name]))));
  }
}
