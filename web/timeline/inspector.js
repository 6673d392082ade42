// @ts-check
// The panel below the picture: why the step under the play head looks as it does.

import { el, say, spans, textButton } from "../lib/dom.js";
import { count, seconds } from "../lib/format.js";
import { Source } from "./source.js";
import { linesOf, shortened } from "./step_explanation.js";

/** @import { TimelineLane } from "./types.js" */
/** @import { Line } from "./step_explanation.js" */

export class Inspector {
  /** @param {(k: number) => void} onSelect the reader chose lane k */
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.title = el("h3", {});
    this.list = el("dl", {});
    this.source = new Source();
    const label = "Run to look at";
    this.lanes = el("span", { class: "pair", role: "group", "aria-label": label, hidden: true });
    this.live = el("div", { class: "visually-hidden", "aria-live": "polite" });
    const head = el("div", { class: "why-head" }, this.title, this.lanes, this.source.button);
    this.element = el(
      "section",
      { class: "why", "aria-label": "Why the step looks like this" },
      el("div", { class: "facts" }, head, this.list),
      this.source.element,
      this.live,
    );
    this.tallest = 0;
    this.names = "";
  }

  /**
   * Offers the lanes that can be looked at.
   * @param {TimelineLane[]} lanes
   * @param {number} selected
   */
  offer(lanes, selected) {
    this.lanes.hidden = lanes.length < 2;
    const names = lanes.map((lane) => lane.title);
    if (this.names !== names.join()) {
      this.names = names.join();
      const buttons = names.map((text, k) => textButton(text, () => this.onSelect(k)));
      this.lanes.replaceChildren(...buttons);
    }
    [...this.lanes.children].forEach((button, k) => {
      button.setAttribute("aria-pressed", String(k === selected));
    });
  }

  showNothing() {
    say(this.title, "No step to look at");
    this.list.replaceChildren();
    this.source.show(undefined);
  }

  /**
   * Shows step i of a lane.
   * @param {TimelineLane} lane
   * @param {number} i
   * @param {boolean} aloud whether screen readers say it too: on a pause or a single step
   */
  show(lane, i, aloud) {
    const number = lane.first_step + i;
    const duration = seconds(lane.duration[i]);
    say(this.title, `Step ${count(number)} · ${duration} · why it looks like this`);
    const lines = linesOf(lane, i);
    this.list.replaceChildren(...shortened(lines).map(entry));
    this.source.show(lines.find((line) => line.name?.startsWith("stop"))?.name);
    if (aloud) {
      const words = lines.map(({ chip, parts }) => `${chip}: ${parts.map(([t]) => t).join("")}`);
      say(this.live, `Step ${number}, ${duration}. ${words.join(". ")}`);
    }
  }

  /**
   * While the head moves the panel only grows, so that nothing below it jumps.
   * @param {boolean} playing
   */
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

/** @param {Line} line */
function entry({ chip, tone, parts }) {
  const name = el("span", { class: `chip chip-${tone}`, text: chip });
  return el("div", { class: "fact" }, el("dt", {}, name), el("dd", {}, ...spans(parts)));
}
