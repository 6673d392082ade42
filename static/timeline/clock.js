// Time and step of a lane: where a moment falls, and where a step lies on the axis.

export class Clock {
  // lane: a lane of the packet.
  constructor(lane) {
    this.first = lane.first_step;
    this.length = lane.start.length;
    this.starts = new Float64Array(this.length);
    this.ends = new Float64Array(this.length);
    for (let i = 0; i < this.length; i++) {
      this.starts[i] = lane.t0_s + lane.start[i];
      this.ends[i] = this.starts[i] + lane.duration[i];
      // f4 rounding must not open a hair between steps that touch
      if (i > 0 && Math.abs(this.starts[i] - this.ends[i - 1]) < 2e-6) this.ends[i - 1] = this.starts[i];
    }
  }

  // The step that runs at `t`; before the first: 0, between two: the next, after the last: the last.
  stepAt(t) {
    let low = 0, high = this.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] > t) high = middle; else low = middle + 1;
    }
    return low;
  }

  // Where a moment lies on an axis of steps: 3.5 is the middle of the fourth step.
  position(t) {
    if (this.length === 0) return 0;
    const i = this.stepAt(t);
    const within = (t - this.starts[i]) / Math.max(this.ends[i] - this.starts[i], 1e-12);
    return this.first + i + Math.min(1, Math.max(0, within));
  }

  // The inverse of `position`.
  moment(position) {
    if (this.length === 0) return 0;
    const i = Math.min(this.length - 1, Math.max(0, Math.floor(position - this.first)));
    const within = Math.min(1, Math.max(0, position - this.first - i));
    return this.starts[i] + within * (this.ends[i] - this.starts[i]);
  }

  // A moment inside step i, off its middle, where marks carry their words.
  inside(i) {
    return this.starts[i] + 0.3 * (this.ends[i] - this.starts[i]);
  }
}
