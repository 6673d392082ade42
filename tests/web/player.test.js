// @ts-check
// The play head.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Player, SPEEDS, speedFor, speedName } from "../../web/lib/player.js";

/**
 * @param {number} from
 * @param {number} to
 */
function playerOf(from, to) {
  const player = new Player(
    () => {},
    () => {},
  );
  player.limit(from, to);
  return player;
}

test("speeds are fractions in words", () => {
  assert.deepEqual([0.25, 0.5, 1 / 64, 1, 16].map(speedName), ["¼×", "½×", "1/64×", "1×", "16×"]);
});

test("a speed suits the length of what is watched", () => {
  assert.equal(speedFor(8), 1); // eight seconds take eight seconds
  assert.equal(speedFor(2), 0.25);
  assert.equal(speedFor(1e9), SPEEDS.at(-1));
  assert.equal(speedFor(1e-9), SPEEDS[0]);
});

test("the head stays inside its limits", () => {
  const player = playerOf(2, 6);
  assert.equal(player.time, 2);
  player.seek(100);
  assert.equal(player.time, 6);
  player.limit(0, 3);
  assert.equal(player.time, 3);
});

test("the head moves with the clock and stops at the end", () => {
  const player = playerOf(0, 1);
  player.playing = true;
  player.speed = 0.5;
  player.advance(1);
  assert.equal(player.time, 0.5);
  assert.ok(player.playing);
  player.advance(1.5);
  assert.equal(player.time, 1);
  assert.ok(!player.playing);
});

test("a loop begins again", () => {
  const player = playerOf(0, 1);
  player.playing = true;
  player.loop = true;
  player.speed = 1;
  player.advance(1.2);
  assert.equal(player.time, 0);
  assert.ok(player.playing);
});
