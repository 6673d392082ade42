// Messages to the server: the newest value of each kind, the next one only when the last was answered.

const PATIENCE = 3000; // ms; an answer that never comes must not lock the dial

export class Link {
  // send(kind, value) hands a message over; onBusy(bool) tells when an answer is awaited.
  constructor(send, onBusy) {
    this.send = send;
    this.onBusy = onBusy;
    this.sequence = Date.now(); // larger than any number of an earlier mount
    this.waiting = new Map();
    this.inFlight = 0;
  }

  // Queue `value` under `kind`; a newer value of the same kind replaces one that has not left yet.
  put(kind, value) {
    this.waiting.set(kind, value);
    this.flush();
  }

  drop(kind) {
    this.waiting.delete(kind);
  }

  flush() {
    if (this.inFlight || this.waiting.size === 0) return;
    const [kind, value] = this.waiting.entries().next().value;
    this.waiting.delete(kind);
    this.inFlight = ++this.sequence;
    this.send(kind, { ...value, seq: this.sequence });
    this.onBusy(true);
    this.timer = setTimeout(() => this.answered(Infinity), PATIENCE);
  }

  // An answer to message `seq` has come.
  answered(seq) {
    if (!this.inFlight || seq < this.inFlight) return;
    clearTimeout(this.timer);
    this.inFlight = 0;
    this.onBusy(false);
    this.flush();
  }

  // Nothing of this kind is on its way or waiting: what the server says is up to date.
  get idle() {
    return !this.inFlight && this.waiting.size === 0;
  }

  close() {
    clearTimeout(this.timer);
    this.waiting.clear();
  }
}
