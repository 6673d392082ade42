// Why the step under the play head looks as it does: the server's sentences with the step's numbers.

const v = new URL(import.meta.url).search;
const [{ el, spans, say }, { count, seconds, fill }, { Source }] = await Promise.all([
  import(`./dom.js${v}`), import(`./format.js${v}`), import(`./source.js${v}`),
]);

const MOST = 8; // facts shown at once; the rest is counted

// The lines of step i of a lane: [{ chip, tone, parts }], parts as [words, bold].
export function linesOf(lane, i) {
  const lines = [];
  const decodes = lane.decodes[i];
  if (decodes === 1) lines.push({ chip: "1 decode", tone: "decode", parts: [["1 token", false]] });
  if (decodes > 1) {
    const n = count(decodes);
    lines.push({ chip: `${n} decodes`, tone: "decode", parts: [[`${n} tokens, one each, in list order`, false]] });
  }
  const [from, to] = factsOf(lane, i);
  for (let f = from; f < to; f++) lines.push(line(lane, f));
  const terms = termsOf(lane, i);
  if (terms) lines.push({ chip: seconds(lane.duration[i]), tone: "muted", parts: [[terms, false]] });
  return lines;
}

function factsOf(lane, i) {
  const steps = lane.fact_step;
  const first = (value) => {
    let low = 0, high = steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < value) low = middle + 1; else high = middle;
    }
    return low;
  };
  return [first(i), first(i + 1)];
}

function line(lane, f) {
  const { name, chip, tone, sentence } = lane.texts[lane.fact_kind[f]];
  const who = lane.fact_who[f] ? lane.labels[lane.fact_who[f] - 1] : "nobody";
  const words = {
    who, a: count(lane.fact_a[f]), b: count(lane.fact_b[f]), c: count(lane.fact_c[f]),
    budget: count(lane.budget), cap: lane.cap ? count(lane.cap) : "off",
    reason: name === "stop_plain" ? lane.reasons[lane.fact_a[f]] : "",
  };
  return { name, chip: fill(chip, words)[0][0], tone, parts: fill(sentence, words) };
}

function termsOf(lane, i) {
  const width = lane.terms.length;
  if (!width || !lane.terms_share) return "";
  const words = {};
  lane.terms.forEach((_, k) => {
    const share = lane.terms_share[i * width + k] / 32768;
    words[k] = (share * lane.duration[i] * 1e3).toFixed(1);
  });
  return fill(lane.terms_text, words)[0][0];
}

export class Inspector {
  // onLook(k): the reader wants to look at lane k.
  constructor(onLook) {
    this.title = el("h3", {});
    this.list = el("dl", {});
    this.source = new Source();
    this.lanes = el("span", { class: "pair", role: "group", "aria-label": "Run to look at", hidden: true });
    this.onLook = onLook;
    this.live = el("div", { class: "visually-hidden", "aria-live": "polite" });
    this.element = el("section", { class: "why", "aria-label": "Why the step looks like this" },
      el("div", { class: "facts" }, el("div", { class: "why-head" }, this.title, this.lanes, this.source.button), this.list),
      this.source.element, this.live);
    this.tallest = 0;
  }

  // Which of the lanes is looked at.
  offer(lanes, look) {
    this.lanes.hidden = lanes.length < 2;
    const names = lanes.map((lane) => lane.title);
    if (this.names !== names.join()) {
      this.names = names.join();
      this.lanes.replaceChildren(...names.map((text, k) => el("button", { type: "button", class: "text", text, onclick: () => this.onLook(k) })));
    }
    [...this.lanes.children].forEach((button, k) => button.setAttribute("aria-pressed", k === look));
  }

  // Show step i of a lane; `aloud` says it to screen readers too (on pause or step only).
  show(lane, i, aloud) {
    if (!lane || !lane.start.length) {
      say(this.title, "No step to look at");
      this.list.replaceChildren();
      this.source.show(null);
      return;
    }
    const number = lane.first_step + i;
    say(this.title, `Step ${count(number)} · ${seconds(lane.duration[i])} · why it looks like this`);
    const lines = linesOf(lane, i);
    this.list.replaceChildren(...shortened(lines).map(entry));
    this.source.show(lines.find((one) => one.name?.startsWith("stop"))?.name);
    if (aloud) {
      const words = lines.map((one) => `${one.chip}: ${one.parts.map((part) => part[0]).join("")}`);
      say(this.live, `Step ${number}, ${seconds(lane.duration[i])}. ${words.join(". ")}`);
    }
  }

  // While the head runs the panel only grows, so that nothing below it jumps.
  settle(playing) {
    if (!playing) {
      this.tallest = 0;
      this.list.style.minHeight = "";
      return;
    }
    const height = this.list.offsetHeight;
    if (height > this.tallest) {
      this.tallest = height;
      this.list.style.minHeight = `${height}px`;
    }
  }
}

// At most MOST lines of a kind, and a line that counts the others.
function shortened(lines) {
  const seen = {}, shown = [];
  for (const one of lines) {
    const kind = one.name?.startsWith("chunk") ? "chunk" : one.name ?? one.chip;
    seen[kind] = (seen[kind] ?? 0) + 1;
    if (seen[kind] <= MOST) shown.push({ ...one, kind });
  }
  for (const [kind, n] of Object.entries(seen)) {
    if (n <= MOST) continue;
    const last = shown.findLastIndex((one) => one.kind === kind), { tone } = shown[last];
    shown.splice(last + 1, 0, { chip: `${count(n - MOST)} more`, tone, parts: [["of the same kind in this step", false]] });
  }
  return shown;
}

function entry({ chip, tone, parts }) {
  return el("div", { class: "fact" },
    el("dt", {}, el("span", { class: `chip chip-${tone}`, text: chip })), el("dd", {}, ...spans(parts)));
}
