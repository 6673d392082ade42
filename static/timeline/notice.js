// What comes and goes: the question before the first drag, what the engine refuses, a line while one
// waits.

const v = new URL(import.meta.url).search;
const { el, spans } = await import(`./dom.js${v}`);

// Predict first: a question with answers; once answered, what came out.
export class Question {
  constructor(onAction) {
    this.onAction = onAction;
    this.element = el("div", { class: "question", role: "group", "aria-label": "Predict first", "aria-live": "polite", hidden: true });
  }

  update(question) {
    const written = JSON.stringify(question);
    if (written === this.written) return;
    this.written = written;
    this.element.hidden = !question;
    if (!question) return;
    const answers = question.answers.map(({ id, label }, i) => el("button", {
      type: "button", class: i === question.answers.length - 1 ? "text" : "pill", text: label, onclick: () => this.onAction(id),
    }));
    this.element.replaceChildren(el("p", {}, ...spans(question.text)), el("span", { class: "answers" }, ...answers));
  }
}

// Why there is no new picture: the engine's sentence over the last one, with buttons that cure it.
export class Problem {
  constructor(onAction) {
    this.onAction = onAction;
    this.element = el("div", { class: "problem", role: "alert", hidden: true });
  }

  update(problem) {
    this.element.hidden = !problem;
    if (!problem) return;
    const cures = problem.cures.map(({ id, label }) =>
      el("button", { type: "button", class: "cure", text: label, onclick: () => this.onAction(id) }));
    this.element.replaceChildren(el("p", { text: problem.text }), el("div", { class: "cures" }, ...cures));
  }
}

// A thin moving line once an answer takes long.
export class Busy {
  constructor(element) {
    this.element = element;
  }

  show(waiting) {
    clearTimeout(this.slow);
    this.element.removeAttribute("aria-busy");
    if (waiting) this.slow = setTimeout(() => this.element.setAttribute("aria-busy", "true"), 300);
  }

  close() {
    clearTimeout(this.slow);
  }
}
