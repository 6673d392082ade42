// One chat: a question, an answer that grows a word a token, and the wait for the next one.

export class Window {
  constructor(el, { name, asks, answer }) {
    this.el = el;
    this.words = answer.split(/\s+/).filter(Boolean);
    this.text = el("div", { class: "answer", "aria-hidden": "true" });
    this.badge = el("span", { class: "badge" });
    this.element = el("section", { class: "window", "aria-label": `Chat of ${name}` },
      el("div", { class: "head" }, el("b", { text: name }), this.badge),
      el("p", { class: "asks", text: asks }), this.text);
    this.count = -1;
  }

  // times: of its tokens, s; now: the run's time; sent: when the document came, null: never.
  show(times, now, sent, limit) {
    const count = upTo(times, now), last = times[count - 1] ?? 0;
    const wait = count > 0 && count < times.length ? now - last : 0;
    const frozen = sent !== null && now > sent && wait > limit;
    const worst = sent === null ? 0 : worstSince(times, count, sent);
    this.element.classList.toggle("frozen", frozen);
    const words = frozen ? `no token for ${ms(wait)}` : worst > 0 ? `longest wait ${ms(worst)}` : "";
    if (this.badge.textContent !== words) this.badge.textContent = words;
    this.badge.className = `badge ${frozen || worst > limit ? "long" : "short"}`;
    if (count === this.count && sent === this.sent) return;
    this.count = count;
    this.sent = sent;
    this.write(times, count, sent, limit);
  }

  // The last paragraphs, with a mark where the reader had to wait. The answer begins again when it is
  // over, in a paragraph of its own, so that lines never break anew.
  write(times, count, sent, limit) {
    const round = this.words.length, from = Math.max(0, Math.floor((count - 1) / round) * round - round);
    const paragraphs = [];
    let run = [];
    const flush = () => {
      if (run.length) paragraphs.at(-1).append(`${run.join(" ")} `);
      run = [];
    };
    for (let i = from; i < count; i++) {
      if (i % round === 0) {
        flush();
        paragraphs.push(this.el("p", {}));
      }
      const gap = i > 0 ? times[i] - times[i - 1] : 0;
      if (sent !== null && times[i] > sent && gap > Math.max(limit, 0.15)) {
        flush();
        paragraphs.at(-1).append(this.el("span", { class: "gap", text: ms(gap) }), " ");
      }
      run.push(this.words[i % round]);
    }
    if (!paragraphs.length) paragraphs.push(this.el("p", {}));
    flush();
    paragraphs.at(-1).append(this.el("i", { class: "caret" }));
    this.text.replaceChildren(...paragraphs);
  }

  rest() {
    this.element.classList.remove("frozen");
  }
}

const ms = (s) => (s < 1 ? `${Math.round(s * 1e3)} ms` : `${s.toFixed(2)} s`);

function upTo(sorted, t) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= t) low = middle + 1; else high = middle;
  }
  return low;
}

function worstSince(times, count, sent) {
  let worst = 0;
  for (let i = Math.max(1, upTo(times, sent)); i < count; i++) worst = Math.max(worst, times[i] - times[i - 1]);
  return worst;
}
