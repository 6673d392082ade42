// @ts-check
// The steps of a lane on the clock: which step runs at a moment, and where a step lies on the axis.

import { firstIndex } from "./search.js";

/** @import { StepTimes } from "./packet.js" */

const ROUNDING_S = 2e-6; // gaps this small come from float32 rounding

export class StepClock {
  /** @param {StepTimes} lane */
  constructor(lane) {
    this.first = lane.first_step;
    this.length = lane.start.length;
    this.starts = new Float64Array(this.length);
    this.ends = new Float64Array(this.length);
    for (let i = 0; i < this.length; i++) {
      this.starts[i] = lane.t0_s + lane.start[i];
      this.ends[i] = this.starts[i] + lane.duration[i];
      if (i > 0 && Math.abs(this.starts[i] - this.ends[i - 1]) < ROUNDING_S) {
        this.ends[i - 1] = this.starts[i];
      }
    }
  }

  /**
   * The step that runs at `t`. Between two steps it is the next one, after the last it is the last.
   * @param {number} t
   */
  stepAt(t) {
    return firstIndex(0, Math.max(0, this.length - 1), (i) => this.ends[i] > t);
  }

  /**
   * The position of a moment on an axis of steps: 3.5 is the middle of the fourth step.
   * @param {number} t
   */
  position(t) {
    if (this.length === 0) return 0;
    const i = this.stepAt(t);
    const within = (t - this.starts[i]) / Math.max(this.ends[i] - this.starts[i], 1e-12);
    return this.first + i + Math.min(1, Math.max(0, within));
  }

  /**
   * The inverse of `position`.
   * @param {number} position
   */
  moment(position) {
    if (this.length === 0) return 0;
    const i = Math.min(this.length - 1, Math.max(0, Math.floor(position - this.first)));
    const within = Math.min(1, Math.max(0, position - this.first - i));
    return this.starts[i] + within * (this.ends[i] - this.starts[i]);
  }

  /**
   * A moment inside step i, away from its middle, where marks carry their label.
   * @param {number} i
   */
  inside(i) {
    return this.starts[i] + 0.3 * (this.ends[i] - this.starts[i]);
  }
}
