// Four windows type at the moments that the simulation gives; a document is sent, and they stand still or
// do not. Time is the run's own, one second a second.

const v = new URL(import.meta.url).search;
const [{ Window }, { TALKS }] = await Promise.all([import(`./window.js${v}`), import(`./words.js${v}`)]);

const LEAD = 0.35; // s from the click to the arrival: the answer with the new times must come in time
const AFTER = 2.2; // s to play on after the document's first token
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export class Chats {
  constructor(parent, styleUrl) {
    this.way = 0;
    this.now = 0;
    this.build(parent, styleUrl);
  }

  build(parent, styleUrl) {
    this.windows = TALKS.map((talk) => new Window(el, talk));
    this.send = el("button", { type: "button", class: "send", onclick: () => this.press() });
    this.ways = el("div", { class: "ways", role: "radiogroup", "aria-label": "How the server runs prompts" });
    this.status = el("p", { class: "status", "aria-live": "polite" });
    this.told = el("p", { class: "told", "aria-live": "polite" });
    this.server = el("p", { class: "server" });
    this.root = el("div", { class: "chats", hidden: "" },
      el("div", { class: "bar" }, this.send, this.ways, this.status),
      el("div", { class: "grid" }, ...this.windows.map((one) => one.element)), this.told, this.server);
    const style = el("link", { rel: "stylesheet", href: styleUrl });
    style.addEventListener("load", () => {
      parent.querySelector(".skeleton")?.remove();
      this.root.hidden = false;
    });
    parent.append(style, this.root);
  }

  update(component) {
    this.component = component;
    const show = typeof component.data === "string" ? JSON.parse(component.data) : component.data;
    const written = JSON.stringify(show);
    this.paintTheme();
    if (written === this.written) return;
    this.written = written;
    this.show = show;
    this.server.textContent = `${show.server}; one word stands for one token.`;
    this.offerWays();
    if (show.sent_s === null) this.begin(); else this.arrived();
  }

  offerWays() {
    this.ways.replaceChildren(...this.show.ways.map(({ name }, k) => el("button", {
      type: "button", role: "radio", "aria-checked": String(k === this.way), tabindex: k === this.way ? 0 : -1, text: name,
      onclick: () => this.choose(k), onkeydown: (event) => this.key(event),
    })));
  }

  key(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose((this.way + by + this.show.ways.length) % this.show.ways.length);
    this.ways.children[this.way].focus();
  }

  choose(k) {
    this.way = k;
    this.offerWays();
    if (this.show.sent_s !== null) this.replay();
  }

  // Nobody has sent anything: the chats type, round and round.
  begin() {
    this.now = 0;
    this.sent = null;
    this.say("Four people chat with one server.");
    this.send.textContent = `Send an ${this.show.document_tokens.toLocaleString("en")}-token document`;
    this.play(Infinity);
  }

  press() {
    if (this.waiting) return;
    if (this.show.sent_s !== null) {
      this.replay();
      return;
    }
    this.sent = Math.max(0.5, this.now) + LEAD;
    this.waiting = true;
    this.component.setStateValue("send", { at_s: +this.sent.toFixed(3) });
  }

  // The server has answered with the moments of both ways.
  arrived() {
    this.waiting = false;
    this.send.textContent = "Send it again";
    if (this.now > this.show.sent_s) this.now = this.show.sent_s - 0.2; // the answer came late
    if (still()) this.jump(); else this.play(this.end);
  }

  get end() {
    return Math.max(...this.show.ways.map((way) => way.document_s ?? 0)) + AFTER;
  }

  replay() {
    this.now = Math.max(0, this.show.sent_s - 1.2);
    if (still()) this.jump(); else this.play(this.end);
  }

  jump() {
    this.now = this.end;
    this.frame();
    this.over();
  }

  play(end) {
    cancelAnimationFrame(this.request);
    this.until = end;
    this.last = performance.now();
    if (still() && end === Infinity) { // no typing by itself: the words stand there
      this.now = 6;
      this.frame();
      return;
    }
    const tick = () => {
      const t = performance.now();
      this.now += Math.min(0.1, (t - this.last) / 1e3);
      this.last = t;
      const last = this.show.ways[this.way].tokens_s[0].at(-1);
      if (this.until === Infinity && this.now > last) this.now = 0;
      this.frame();
      if (this.now < this.until) this.request = requestAnimationFrame(tick);
      else this.over();
    };
    this.request = requestAnimationFrame(tick);
  }

  frame() {
    const { tokens_s: tokens, document_s: first } = this.show.ways[this.way], { sent_s: sent, limit_s: limit } = this.show;
    this.windows.forEach((one, k) => one.show(tokens[k], this.now, sent, limit));
    if (sent === null) {
      if (this.waiting) this.say("Sending …");
    } else if (this.now < sent) this.say("The document is on its way …");
    else if (this.now < first) this.say("The document has arrived: the server computes its tokens.");
    else this.say(`The document's first token came after ${Math.round(1e3 * (first - sent)).toLocaleString("en")} ms.`);
  }

  over() {
    for (const one of this.windows) one.rest();
    this.told.replaceChildren(...this.show.told.map(([text, tone]) => (tone ? el("em", { class: `tone-${tone}`, text }) : text)));
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  paintTheme() {
    const style = getComputedStyle(this.root);
    const scratch = document.createElement("canvas").getContext("2d");
    scratch.fillStyle = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
    scratch.fillRect(0, 0, 1, 1);
    const [r, g, b] = scratch.getImageData(0, 0, 1, 1).data;
    this.root.dataset.theme = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
  }

  close() {
    cancelAnimationFrame(this.request);
  }
}
