// @ts-check
// Two range inputs that answer while they are dragged: the token budget and the cap per request.

import { el, say, spans } from "../lib/dom.js";
import { count } from "../lib/format.js";

/** @import { Envelope } from "./types.js" */

const OFF = 0;

/**
 * Powers of two with three values in between: 16, 20, 24, 28, 32, 40, ...
 * @param {number} lowest
 * @param {number} highest
 */
export function scaleOf(lowest, highest) {
  const values = [];
  for (let base = lowest; base < highest; base *= 2) {
    for (let quarter = 4; quarter < 8; quarter++) values.push((base * quarter) / 4);
  }
  return [...values, highest];
}

/**
 * The index of the value that is nearest by ratio. `off` (0) has its own place at the end.
 * @param {number[]} values
 * @param {number} value
 */
export function nearest(values, value) {
  if (value === OFF && values.includes(OFF)) return values.length - 1;
  const distance = (/** @type {number} */ i) => Math.abs(Math.log(values[i] / value));
  let best = 0;
  values.forEach((candidate, i) => {
    if (candidate && distance(i) < distance(best)) best = i;
  });
  return best;
}

/** @typedef {{ name: string, flag: string, values: number[], ticks: [number, string][], unit: string }} Kind */

/** @type {Record<"budget" | "cap", Kind>} */
const KINDS = {
  budget: {
    name: "Token budget per step",
    flag: "--max-num-batched-tokens",
    values: scaleOf(16, 16384),
    ticks: [
      [16, "16"],
      [128, "128"],
      [1024, "1k"],
      [4096, "4k"],
      [16384, "16k"],
    ],
    unit: "tokens per step",
  },
  cap: {
    name: "Cap per request",
    flag: "--long-prefill-token-threshold",
    values: [...scaleOf(16, 8192), OFF],
    ticks: [
      [16, "16"],
      [128, "128"],
      [1024, "1k"],
      [4096, "4k"],
      [OFF, "off"],
    ],
    unit: "tokens per request and step",
  },
};

class Dial {
  /**
   * @param {"budget" | "cap"} kind
   * @param {() => void} onMove
   * @param {() => void} onRelease
   */
  constructor(kind, onMove, onRelease) {
    const { name, flag, values, ticks, unit } = KINDS[kind];
    this.values = values;
    this.unit = unit;
    this.held = false;
    this.number = el("b", { text: "" });
    const described = `bs-${kind}-flag`;
    const attributes = { type: "range", id: `bs-${kind}`, min: 0, max: values.length - 1, step: 1 };
    this.input = el("input", { ...attributes, "aria-describedby": described });
    const marks = ticks.map(([value, text]) => {
      const mark = el("span", { text });
      mark.style.left = `${this.share(nearest(values, value)) * 100}%`;
      return mark;
    });
    const label = el("label", { for: `bs-${kind}`, text: name });
    this.element = el(
      "div",
      { class: "dial" },
      el("div", { class: "dial-head" }, label, this.number),
      el("div", { class: "track" }, this.input),
      el("div", { class: "ticks", "aria-hidden": "true" }, ...marks),
      el("code", { class: "flag", id: described, text: flag }),
    );
    this.input.addEventListener("pointerdown", () => {
      this.held = true;
    });
    this.input.addEventListener("input", () => {
      this.show();
      onMove();
    });
    this.input.addEventListener("change", () => {
      this.held = false;
      onRelease();
    });
    for (const end of ["pointerup", "pointercancel", "blur"]) {
      this.input.addEventListener(end, () => {
        this.held = false;
      });
    }
  }

  get value() {
    return this.values[+this.input.value];
  }

  /** @param {number} index */
  share(index) {
    return index / (this.values.length - 1);
  }

  /** @param {number} value */
  set(value) {
    this.input.value = String(nearest(this.values, value));
    this.show(value);
  }

  show(value = this.value) {
    const words = value === OFF ? "off" : count(value);
    say(this.number, words);
    this.input.setAttribute("aria-valuetext", value === OFF ? "off" : `${words} ${this.unit}`);
    this.input.style.setProperty("--fill", `${this.share(+this.input.value) * 100}%`);
  }

  /**
   * Marks the values below `limit` as refused by the engine.
   * @param {number | null | undefined} limit
   */
  refuseBelow(limit) {
    const first = limit ? this.values.findIndex((value) => value >= limit || value === OFF) : 0;
    const share = this.share(Math.max(0, first - 0.5));
    this.input.style.setProperty("--refused", `${share * 100}%`);
    this.input.title = limit && first > 0 ? `the engine refuses less than ${count(limit)}` : "";
  }
}

export class Dials {
  /**
   * @param {(value: { budget: number, cap: number, released: boolean }) => void} onChange
   * @param {HTMLElement} compare stands under the settings
   */
  constructor(onChange, compare) {
    const report = (/** @type {boolean} */ released) =>
      onChange({ budget: this.budget.value, cap: this.cap.value, released });
    const [onMove, onRelease] = [() => report(false), () => report(true)];
    this.budget = new Dial("budget", onMove, onRelease);
    this.cap = new Dial("cap", onMove, onRelease);
    this.summary = el("div", { class: "settings" });
    const beside = el("div", {}, this.summary, compare);
    this.element = el("div", { class: "dials" }, this.budget.element, this.cap.element, beside);
  }

  get held() {
    return this.budget.held || this.cap.held;
  }

  /**
   * Shows what the server says.
   * @param {Pick<Envelope, "dials" | "refused" | "settings" | "shown">} envelope
   * @param {boolean} follow whether the thumbs follow: not while one is held or a value is on its way
   */
  update({ dials, refused, settings, shown }, follow) {
    this.budget.element.hidden = Boolean(shown) && !shown?.includes("budget");
    this.cap.element.hidden = Boolean(shown) && !shown?.includes("cap");
    if (follow) {
      this.budget.set(dials.budget);
      this.cap.set(dials.cap);
    }
    this.budget.refuseBelow(refused.budget);
    this.cap.refuseBelow(refused.cap);
    this.summary.replaceChildren(...settings.map((line) => el("div", {}, ...spans(line))));
  }
}
