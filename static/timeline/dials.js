// Two range inputs that answer while they are dragged: the token budget and the cap per request.

const v = new URL(import.meta.url).search;
const [{ el, say, spans }, { count }] = await Promise.all([import(`./dom.js${v}`), import(`./format.js${v}`)]);

const OFF = 0;

// Powers of two with three values in between, the way people choose them: 16, 20, 24, 28, 32, 40, ...
export function scaleOf(lowest, highest) {
  const values = [];
  for (let base = lowest; base < highest; base *= 2) {
    for (let quarter = 4; quarter < 8; quarter++) values.push((base * quarter) / 4);
  }
  return [...values, highest];
}

const KINDS = {
  budget: {
    name: "Token budget per step", flag: "--max-num-batched-tokens", values: scaleOf(16, 16384),
    ticks: [[16, "16"], [128, "128"], [1024, "1k"], [4096, "4k"], [16384, "16k"]], unit: "tokens a step",
  },
  cap: {
    name: "Cap per request", flag: "--long-prefill-token-threshold", values: [...scaleOf(16, 8192), OFF],
    ticks: [[16, "16"], [128, "128"], [1024, "1k"], [4096, "4k"], [OFF, "off"]], unit: "tokens a request and step",
  },
};

// One dial. onMove(value), onRelease(value).
class Dial {
  constructor(kind, onMove, onRelease) {
    const { name, flag, values, ticks, unit } = KINDS[kind];
    this.values = values;
    this.unit = unit;
    this.held = false;
    this.number = el("b", { text: "" });
    this.input = el("input", {
      type: "range", id: `bs-${kind}`, min: 0, max: values.length - 1, step: 1, "aria-describedby": `bs-${kind}-flag`,
    });
    const marks = ticks.map(([value, text]) => {
      const mark = el("span", { text });
      mark.style.left = `${this.share(this.index(value)) * 100}%`;
      return mark;
    });
    this.element = el("div", { class: "dial" },
      el("div", { class: "dial-head" }, el("label", { for: `bs-${kind}`, text: name }), this.number),
      el("div", { class: "track" }, this.input),
      el("div", { class: "ticks", "aria-hidden": "true" }, ...marks),
      el("code", { class: "flag", id: `bs-${kind}-flag`, text: flag }));
    this.input.addEventListener("pointerdown", () => { this.held = true; });
    this.input.addEventListener("input", () => { this.show(); onMove(this.value); });
    this.input.addEventListener("change", () => { this.held = false; onRelease(this.value); });
    for (const end of ["pointerup", "pointercancel", "blur"]) {
      this.input.addEventListener(end, () => { this.held = false; });
    }
  }

  get value() {
    return this.values[+this.input.value];
  }

  // The position whose value is nearest, by ratio.
  index(value) {
    if (value === OFF && this.values.includes(OFF)) return this.values.length - 1;
    let best = 0;
    this.values.forEach((candidate, i) => {
      if (candidate && Math.abs(Math.log(candidate / value)) < Math.abs(Math.log(this.values[best] / value))) best = i;
    });
    return best;
  }

  share(index) {
    return index / (this.values.length - 1);
  }

  set(value) {
    this.input.value = this.index(value);
    this.show(value);
  }

  show(value = this.value) {
    const words = value === OFF ? "off" : count(value);
    say(this.number, words);
    this.input.setAttribute("aria-valuetext", value === OFF ? "off" : `${words} ${this.unit}`);
    this.input.style.setProperty("--fill", `${this.share(+this.input.value) * 100}%`);
  }

  // Mark the values below `limit` as refused by the engine; null: none.
  refuseBelow(limit) {
    const first = limit ? this.values.findIndex((value) => value >= limit || value === OFF) : 0;
    this.input.style.setProperty("--refused", `${this.share(Math.max(0, first - 0.5)) * 100}%`);
    this.input.title = first > 0 ? `the engine refuses less than ${count(limit)}` : "";
  }
}

export class Dials {
  // onChange({ budget, cap, released }) for every move; compare: what stands under the settings.
  constructor(onChange, compare) {
    const tell = (released) => onChange({ budget: this.budget.value, cap: this.cap.value, released });
    this.budget = new Dial("budget", () => tell(false), () => tell(true));
    this.cap = new Dial("cap", () => tell(false), () => tell(true));
    this.summary = el("div", { class: "settings" });
    this.element = el("div", { class: "dials" }, this.budget.element, this.cap.element, el("div", {}, this.summary, compare));
  }

  get held() {
    return this.budget.held || this.cap.held;
  }

  // What the server says. The thumb follows only when `mine` is true: nobody holds it, nothing newer is
  // on its way.
  update({ dials, refused, settings, shown }, mine) {
    for (const name of ["budget", "cap"]) this[name].element.hidden = Boolean(shown) && !shown.includes(name);
    if (mine) {
      this.budget.set(dials.budget);
      this.cap.set(dials.cap);
    }
    this.budget.refuseBelow(refused?.budget);
    this.cap.refuseBelow(refused?.cap);
    this.summary.replaceChildren(...(settings ?? []).map((line) => el("div", {}, ...spans(line))));
  }
}
