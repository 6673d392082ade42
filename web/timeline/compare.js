// @ts-check
// Beside the dials: the run that this one is compared with, or the runs it can be compared with.

import { el, textButton } from "../lib/dom.js";

/** @import { Envelope } from "./types.js" */

export class Compare {
  /** @param {(id: string) => void} onAction */
  constructor(onAction) {
    this.onAction = onAction;
    this.written = "";
    const attributes = { class: "compare", role: "group", "aria-label": "Compare", hidden: true };
    this.element = el("div", attributes);
  }

  /** @param {Envelope["compare"]} compare */
  update(compare) {
    const written = JSON.stringify(compare);
    if (written === this.written) return; // focus stays on its button
    this.written = written;
    this.element.hidden = !compare;
    if (!compare) return;
    const { pinned, buttons } = compare;
    const label =
      pinned === null
        ? el("span", { text: "Compare with" })
        : el("span", {}, "Pinned: ", el("b", { text: pinned }));
    const pills = buttons.map(({ id, label: text }) =>
      textButton(text, () => this.onAction(id), { class: "pill" }),
    );
    this.element.replaceChildren(label, ...pills);
  }
}
