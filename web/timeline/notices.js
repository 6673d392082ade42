// @ts-check
// What comes and goes: the question before the first drag, what the engine refuses, a line while an
// answer is awaited.

import { el, spans, textButton } from "../lib/dom.js";

/** @import { Envelope } from "./types.js" */

const SLOW_MS = 300;

/** Predict first: a question with answers; once answered, what happened. */
export class Question {
  /** @param {(id: string) => void} onAction */
  constructor(onAction) {
    this.onAction = onAction;
    this.written = "";
    this.element = el("div", {
      class: "question",
      role: "group",
      "aria-label": "Predict first",
      "aria-live": "polite",
      hidden: true,
    });
  }

  /** @param {Envelope["question"]} question */
  update(question) {
    const written = JSON.stringify(question);
    if (written === this.written) return;
    this.written = written;
    this.element.hidden = !question;
    if (!question) return;
    const last = question.answers.length - 1;
    const answers = question.answers.map(({ id, label }, i) =>
      textButton(label, () => this.onAction(id), { class: i === last ? "text" : "pill" }),
    );
    const text = el("p", {}, ...spans(question.text));
    this.element.replaceChildren(text, el("span", { class: "answers" }, ...answers));
  }
}

/** Why there is no new picture: the engine's sentence over the last one, with buttons that fix it. */
export class Problem {
  /** @param {(id: string) => void} onAction */
  constructor(onAction) {
    this.onAction = onAction;
    this.element = el("div", { class: "problem", role: "alert", hidden: true });
  }

  /** @param {Envelope["problem"]} problem */
  update(problem) {
    this.element.hidden = !problem;
    if (!problem) return;
    const fixes = problem.fixes.map(({ id, label }) =>
      textButton(label, () => this.onAction(id), { class: "fix" }),
    );
    const text = el("p", { text: problem.text });
    this.element.replaceChildren(text, el("div", { class: "fixes" }, ...fixes));
  }
}

/** A thin moving line once an answer takes long. */
export class Busy {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.slow = undefined;
  }

  /** @param {boolean} waiting */
  show(waiting) {
    clearTimeout(this.slow);
    this.element.removeAttribute("aria-busy");
    if (!waiting) return;
    this.slow = setTimeout(() => this.element.setAttribute("aria-busy", "true"), SLOW_MS);
  }

  close() {
    clearTimeout(this.slow);
  }
}
