// Beside the dials: what the run is compared with, or what one click compares it with.

const v = new URL(import.meta.url).search;
const { el } = await import(`./dom.js${v}`);

export class Compare {
  // onAction(id)
  constructor(onAction) {
    this.onAction = onAction;
    this.element = el("div", { class: "compare", role: "group", "aria-label": "Compare", hidden: true });
  }

  // compare: { pinned: words or null, buttons: [{ id, label }] }, null for none.
  update(compare) {
    const written = JSON.stringify(compare);
    if (written === this.written) return; // focus stays on its button
    this.written = written;
    this.element.hidden = !compare;
    if (!compare) return;
    const { pinned, buttons } = compare;
    const label = pinned === null ? el("span", { text: "Compare with" }) : el("span", {}, "Pinned: ", el("b", { text: pinned }));
    this.element.replaceChildren(label, ...buttons.map(({ id, label: text }) =>
      el("button", { type: "button", class: "pill", text, onclick: () => this.onAction(id) })));
  }
}
