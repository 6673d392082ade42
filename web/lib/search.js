// @ts-check
// Binary search.

/**
 * The first index in [low, high) for which `test` holds, `high` where it holds for none. `test` must
 * be false up to some index and true from there on.
 * @param {number} low
 * @param {number} high
 * @param {(index: number) => boolean} test
 */
export function firstIndex(low, high, test) {
  let from = low;
  let to = high;
  while (from < to) {
    const middle = (from + to) >> 1;
    if (test(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

/**
 * The first index of a sorted array whose value is at least `value`.
 * @param {ArrayLike<number>} sorted
 * @param {number} value
 */
export const firstAtLeast = (sorted, value) =>
  firstIndex(0, sorted.length, (i) => sorted[i] >= value);
