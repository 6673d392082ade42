// @ts-check
// The scheduler's source as the server runs it, with the lines that decided the step marked.

import { el, say } from "../lib/dom.js";
import { NARROW } from "./layout.js";

/** @import { SourceCode } from "./types.js" */

export class Source {
  constructor() {
    this.open = innerWidth >= 1.6 * NARROW;
    /** @type {SourceCode | null} */
    this.source = null;
    /** @type {string | undefined} */
    this.kind = undefined;
    /** @type {string | null} what is shown, in short */
    this.shown = null;
    /** @type {HTMLElement | undefined} the first marked line */
    this.first = undefined;
    this.name = el("code", { class: "file" });
    const label = "Source of the scheduler";
    this.code = el("pre", { tabindex: 0, role: "region", "aria-label": label });
    this.element = el("div", { class: "source", hidden: true }, this.name, this.code);
    this.resize = new ResizeObserver(() => this.reveal());
    this.resize.observe(this.code);
    this.button = el("button", {
      type: "button",
      class: "text toggle",
      "aria-expanded": "false",
      onclick: () => this.toggle(),
    });
  }

  /** @param {SourceCode | null} source */
  update(source) {
    this.source = source;
    this.button.hidden = !source;
    this.shown = null;
    this.show(this.kind);
  }

  toggle() {
    this.open = !this.open;
    this.show(this.kind);
  }

  /** @param {string | undefined} kind the kind of the sentence that says what stopped the step */
  show(kind) {
    this.kind = kind;
    const mark = kind === undefined ? undefined : this.source?.marks[kind];
    const visible = this.open && mark !== undefined;
    this.element.hidden = !visible;
    this.button.setAttribute("aria-expanded", String(visible));
    say(this.button, this.open ? "Hide the code" : "Show the code");
    const key = JSON.stringify(mark);
    if (!visible || !this.source || key === this.shown) return;
    this.shown = key;
    const [k, lines] = mark;
    const { name, file, line, text } = this.source.functions[k];
    const marked = new Set(lines);
    say(this.name, `${file} · ${name}`);
    const rows = text.split("\n").map((words, i) => {
      const number = el("i", { text: String(line + i), "aria-hidden": "true" });
      const isMarked = marked.has(i);
      const code = isMarked ? el("mark", { text: words || " " }) : words || " ";
      return el("span", { class: isMarked ? "line marked" : "line" }, number, code);
    });
    this.code.replaceChildren(...rows);
    this.first = rows[Math.min(...lines)];
    this.reveal();
  }

  /** Scrolls to the marked lines; also when the panel gets its size. */
  reveal() {
    if (this.first) this.code.scrollTop = Math.max(0, this.first.offsetTop - 48);
  }

  close() {
    this.resize.disconnect();
  }
}
