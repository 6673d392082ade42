// The picture as two tables: the same requests and the same steps that are in view.

const v = new URL(import.meta.url).search;
const [{ el }, { count, seconds, limitOf, moment }, { linesOf }, { stepUnder }] = await Promise.all([
  import(`./dom.js${v}`), import(`./format.js${v}`), import(`./inspector.js${v}`), import(`./scene.js${v}`),
]);

const PAGE = 200;

export class Table {
  constructor() {
    this.element = el("div", { class: "table-box", hidden: true, tabindex: 0, role: "region", "aria-label": "The picture as tables" });
  }

  get shown() {
    return !this.element.hidden;
  }

  // What is in view; from: the first step of the page, null for the first in view.
  show(scenes, view, from = null) {
    this.element.hidden = false;
    this.element.replaceChildren(...scenes.map((scene) => {
      const [first, last] = [stepUnder(scene, view.range[0]), stepUnder(scene, view.range[1]) + 1];
      return tables(scene, from ?? first, last, (next) => this.show(scenes, view, next));
    }));
  }

  hide() {
    this.element.hidden = true;
  }
}

// scene: of scene.js; from, to: steps in view, [from, to).
function tables(scene, from, to, onPage) {
  const last = Math.min(to, from + PAGE);
  const parts = [requests(scene, from, to), steps(scene, from, last)];
  if (last < to) {
    const words = `Steps ${count(scene.clock.first + from)} to ${count(scene.clock.first + last - 1)} of the view shown.`;
    parts.push(el("p", { class: "note" }, words, " ", el("button", { type: "button", class: "text", text: "Next steps", onclick: () => onPage(last) })));
  }
  return el("div", { class: "tables" }, ...parts);
}

function table(caption, heads, rows) {
  return el("table", {}, el("caption", { text: caption }),
    el("thead", {}, el("tr", {}, ...heads.map((text, i) => el("th", { scope: "col", text, class: i ? "number" : null })))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((text, i) =>
      (i ? el("td", { text }) : el("th", { scope: "row", text })))))));
}

function requests(scene, from, to) {
  const limit = limitOf(scene.lane);
  const rows = scene.rows.map((row) => {
    const chunks = row.chunks.filter((chunk) => chunk.step >= from && chunk.step < to);
    const ticks = row.tickSteps.filter((step) => step >= from && step < to);
    const gaps = row.bands.filter((band) => ticks.some((step) => Math.abs(scene.ends[step] - band.x1) < 1e-9));
    const ttft = row.firstTokenS - row.arrivalS;
    return [
      row.label, Number.isFinite(row.arrivalS) ? moment(row.arrivalS) : "not sent yet",
      Number.isFinite(ttft) ? seconds(ttft) : "none", chunks.map((chunk) => count(chunk.n)).join(", ") || "none",
      count(ticks.length), gaps.map((band) => seconds(band.gap)).join(", ") || "none", row.status,
    ];
  });
  const heads = ["Request", "Arrives", "First token after", "Prefill chunks in view, tokens", "Output tokens in view",
    `Gaps above ${limit} in view`, "State at the end"];
  return table(`${scene.lane.title}: requests`, heads, rows);
}

function steps(scene, from, to) {
  const { lane, clock } = scene, rows = [];
  for (let i = from; i < to; i++) {
    const used = lane.prefill[i] + lane.decodes[i];
    const stop = linesOf(lane, i).find((line) => line.name?.startsWith("stop"));
    rows.push([
      count(clock.first + i), moment(clock.starts[i]), seconds(lane.duration[i]), count(lane.prefill[i]),
      count(lane.decodes[i]), count(lane.budget - used), count(lane.waiting[i]),
      stop ? stop.parts.map((part) => part[0]).join("") : "",
    ]);
  }
  const heads = ["Step", "Starts", "Lasts", "Prefill tokens", "Decodes", "Unused", "Waiting", "Stopped by"];
  return table(`${lane.title}: steps, budget ${count(lane.budget)}`, heads, rows);
}
