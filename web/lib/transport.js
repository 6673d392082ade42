// @ts-check
// Messages to the server. One is in flight at a time; of each kind only the newest value waits.

const TIMEOUT_MS = 3000; // an answer that never comes must not block the next message

export class Transport {
  /**
   * @param {(kind: string, value: object) => void} send hands a message to Streamlit
   * @param {(waiting: boolean) => void} onBusy called when an answer is awaited and when it came
   */
  constructor(send, onBusy = () => {}) {
    this.send = send;
    this.onBusy = onBusy;
    this.sequence = Date.now(); // larger than any number of an earlier mount
    /** @type {Map<string, object>} */
    this.waiting = new Map();
    this.inFlight = 0;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.timer = undefined;
  }

  /**
   * Queue `value` under `kind`; it replaces a value of the same kind that was not sent yet.
   * @param {string} kind
   * @param {object} value
   */
  put(kind, value) {
    this.waiting.set(kind, value);
    this.flush();
  }

  /** @param {string} kind */
  drop(kind) {
    this.waiting.delete(kind);
  }

  flush() {
    if (this.inFlight) return;
    for (const [kind, value] of this.waiting) {
      this.waiting.delete(kind);
      this.inFlight = ++this.sequence;
      this.send(kind, { ...value, seq: this.inFlight });
      this.onBusy(true);
      this.timer = setTimeout(() => this.answered(Number.POSITIVE_INFINITY), TIMEOUT_MS);
      return;
    }
  }

  /**
   * The answer to message `seq` has come.
   * @param {number} seq
   */
  answered(seq) {
    if (!this.inFlight || seq < this.inFlight) return;
    clearTimeout(this.timer);
    this.inFlight = 0;
    this.onBusy(false);
    this.flush();
  }

  /** No message is in flight or waiting: what the server says is up to date. */
  get idle() {
    return !this.inFlight && this.waiting.size === 0;
  }

  close() {
    clearTimeout(this.timer);
    this.waiting.clear();
  }
}
