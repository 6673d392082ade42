// @ts-check
// Four chat windows type at the moments that the simulation gives. A document is sent, and the windows
// freeze or keep typing. Time is the run's own: one second per second.

import { el, say, spans } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { Player } from "../lib/player.js";
import { applyTheme, reducedMotion } from "../lib/theme.js";
import { Transport } from "../lib/transport.js";
import { CONVERSATIONS } from "./conversations.js";
import { ChatWindow } from "./window.js";

/** @import { Part } from "../lib/dom.js" */
/** @import { Host } from "../lib/mount.js" */

const LEAD_S = 0.35; // from the click to the arrival, in which the answer with new times must come
const LATE_S = 0.2; // so long before the arrival the windows go on when the answer came late
const BEFORE_S = 1.2; // how much a replay shows before the arrival
const AFTER_S = 2.2; // how much is shown after the document's first token
const STILL_S = 6; // the moment that is shown when motion is reduced
const EARLIEST_S = 0.5;

/** One way to run prompts. @typedef {{ name: string, tokens_s: number[][], document_s: number | null }} Way */
/**
 * What the windows play; see ui/chats. `sent_s` is null while no document was sent.
 * @typedef {object} Show
 * @property {Way[]} ways
 * @property {number | null} sent_s
 * @property {number} document_tokens
 * @property {number} limit_s
 * @property {string} server
 * @property {Part[]} told
 */

export class ChatWindows {
  constructor() {
    /** @type {Show | null} */
    this.show = null;
    this.written = "";
    this.way = 0; // the way that is shown
    /** @type {Host | null} */
    this.host = null;
    this.waiting = false; // for the answer with the moments after the arrival
    this.player = new Player(
      () => this.showFrame(),
      () => this.showEnd(),
    );
    this.player.speed = 1;
    this.transport = new Transport(
      (kind, value) => this.host?.setStateValue(kind, value),
      (waiting) => {
        this.waiting = waiting;
      },
    );
    this.windows = CONVERSATIONS.map((conversation) => new ChatWindow(conversation));
    this.send = el("button", { type: "button", class: "send", onclick: () => this.press() });
    const label = "How the server runs prompts";
    this.ways = el("div", { class: "choices", role: "radiogroup", "aria-label": label });
    this.status = el("p", { class: "status", "aria-live": "polite" });
    this.told = el("p", { class: "told", "aria-live": "polite" });
    this.server = el("p", { class: "server" });
    this.root = el(
      "div",
      { class: "bs chats" },
      el("div", { class: "actions" }, this.send, this.ways, this.status),
      el("div", { class: "windows" }, ...this.windows.map(({ element }) => element)),
      this.told,
      this.server,
    );
  }

  /** @param {Host} host */
  update(host) {
    this.host = host;
    /** @type {Show} */
    const show = typeof host.data === "string" ? JSON.parse(host.data) : host.data;
    const written = JSON.stringify(show);
    this.restyle();
    if (written === this.written) return;
    this.written = written;
    this.show = show;
    say(this.server, `${show.server}; one word stands for one token.`);
    this.offerWays(show);
    if (show.sent_s === null) this.begin(show);
    else this.arrive(show, show.sent_s);
  }

  /** @param {Show} show */
  offerWays(show) {
    const buttons = show.ways.map(({ name }, k) =>
      el("button", {
        type: "button",
        role: "radio",
        "aria-checked": String(k === this.way),
        tabindex: k === this.way ? 0 : -1,
        text: name,
        onclick: () => this.choose(show, k),
        onkeydown: (/** @type {KeyboardEvent} */ event) => this.chooseByKey(show, event),
      }),
    );
    this.ways.replaceChildren(...buttons);
  }

  /**
   * @param {Show} show
   * @param {KeyboardEvent} event
   */
  chooseByKey(show, event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose(show, (this.way + by + show.ways.length) % show.ways.length);
    /** @type {HTMLElement} */ (this.ways.children[this.way]).focus();
  }

  /**
   * @param {Show} show
   * @param {number} k
   */
  choose(show, k) {
    this.way = k;
    this.offerWays(show);
    if (show.sent_s !== null) this.replay(show, show.sent_s);
    else this.limitToChats(show);
  }

  /**
   * No document was sent: the chats type, over and over.
   * @param {Show} show
   */
  begin(show) {
    say(this.status, "Four people chat with one server.");
    say(this.send, `Send an ${count(show.document_tokens)}-token document`);
    const { player } = this;
    player.time = 0;
    player.loop = true;
    this.limitToChats(show);
    if (reducedMotion()) {
      player.seek(STILL_S);
      this.showFrame();
    } else player.play();
  }

  /** @param {Show} show */
  limitToChats(show) {
    this.player.limit(0, show.ways[this.way].tokens_s[0].at(-1) ?? 0);
  }

  press() {
    if (this.waiting || !this.show) return;
    if (this.show.sent_s !== null) {
      this.replay(this.show, this.show.sent_s);
      return;
    }
    const sent = Math.max(EARLIEST_S, this.player.time) + LEAD_S;
    this.transport.put("send", { at_s: +sent.toFixed(3) });
  }

  /**
   * The server has answered with the moments of all ways.
   * @param {Show} show
   * @param {number} sent
   */
  arrive(show, sent) {
    this.transport.answered(Number.POSITIVE_INFINITY);
    say(this.send, "Send it again");
    const { time } = this.player;
    this.playFrom(show, time > sent ? sent - LATE_S : time);
  }

  /**
   * @param {Show} show
   * @param {number} sent
   */
  replay(show, sent) {
    this.playFrom(show, Math.max(0, sent - BEFORE_S));
  }

  /**
   * Plays from a moment to the end; without motion the end is shown at once.
   * @param {Show} show
   * @param {number} time
   */
  playFrom(show, time) {
    const { player } = this;
    player.loop = false;
    player.time = time;
    player.limit(0, endOf(show));
    if (!reducedMotion()) {
      player.play();
      return;
    }
    player.seek(player.to);
    this.showFrame();
    this.showEnd();
  }

  showFrame() {
    const { show } = this;
    if (!show) return;
    const now = this.player.time;
    const { tokens_s: tokens } = show.ways[this.way];
    this.windows.forEach((one, k) => {
      one.show(tokens[k], now, show.sent_s, show.limit_s);
    });
    if (show.sent_s !== null) say(this.status, statusOf(show, show.sent_s, this.way, now));
    else if (this.waiting) say(this.status, "Sending …");
  }

  showEnd() {
    for (const one of this.windows) one.thaw();
    if (this.show) this.told.replaceChildren(...spans(this.show.told));
  }

  restyle() {
    applyTheme(this.root);
  }

  close() {
    this.player.close();
    this.transport.close();
  }
}

/** @param {Show} show */
export const endOf = ({ ways }) => Math.max(...ways.map((way) => way.document_s ?? 0)) + AFTER_S;

/**
 * What the document does at a moment, under a way.
 * @param {Show} show
 * @param {number} sent
 * @param {number} way
 * @param {number} now
 */
export function statusOf({ ways }, sent, way, now) {
  const first = ways[way].document_s ?? Number.POSITIVE_INFINITY;
  if (now < sent) return "The document is on its way …";
  if (now < first) return "The document has arrived: the server computes its tokens.";
  return `The document's first token came after ${count(Math.round(1e3 * (first - sent)))} ms.`;
}
