// The policy's source as the server runs it, with the lines that decided the step marked.

const v = new URL(import.meta.url).search;
const [{ el, say }, { NARROW }] = await Promise.all([import(`./dom.js${v}`), import(`./layout.js${v}`)]);

export class Source {
  constructor() {
    this.open = innerWidth >= 1.6 * NARROW;
    this.name = el("code", { class: "file" });
    this.code = el("pre", { tabindex: 0, role: "region", "aria-label": "Source of the scheduler" });
    this.element = el("div", { class: "source", hidden: true }, this.name, this.code);
    this.resize = new ResizeObserver(() => this.reveal());
    this.resize.observe(this.code);
    this.button = el("button", { type: "button", class: "text toggle", "aria-expanded": "false", onclick: () => this.toggle() });
  }

  // source: { functions: [{ name, file, line, text }], marks: { kind: [function, lines] } } or null.
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

  // kind: of the fact that says what stopped the step.
  show(kind) {
    this.kind = kind;
    const mark = this.source?.marks[kind];
    const visible = this.open && Boolean(mark);
    this.element.hidden = !visible;
    this.button.setAttribute("aria-expanded", visible);
    say(this.button, this.open ? "Hide the code" : "Show the code");
    const key = visible ? JSON.stringify(mark) : null;
    if (!visible || key === this.shown) return;
    this.shown = key;
    const [k, lines] = mark, { name, file, line, text } = this.source.functions[k], marked = new Set(lines);
    say(this.name, `${file} · ${name}`);
    const rows = text.split("\n").map((words, i) => el("span", { class: marked.has(i) ? "line marked" : "line" },
      el("i", { text: String(line + i), "aria-hidden": "true" }), marked.has(i) ? el("mark", { text: words || " " }) : words || " "));
    this.code.replaceChildren(...rows);
    this.first = rows[Math.min(...lines)];
    this.reveal();
  }

  // The marked lines in sight; again when the panel gets its size.
  reveal() {
    if (this.first) this.code.scrollTop = Math.max(0, this.first.offsetTop - 48);
  }

  close() {
    this.resize.disconnect();
  }
}
