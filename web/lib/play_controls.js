// @ts-check
// Buttons that move a play head, and the choice of its speed.

import { el, icon } from "./dom.js";
import { SPEEDS, speedName } from "./player.js";

const PATHS = {
  first: "M1 1h2v10H1zM11 1v10L4 6z",
  back: "M9 1v10L2 6zM9.4 1H11v10H9.400z",
  play: "M2 1v10l9-5z",
  pause: "M2 1h3v10H2zM7 1h3v10H7z",
  forward: "M3 1v10l7-5zM1 1h1.600v10H1z",
  last: "M9 1h2v10H9zM1 1v10l7-5z",
};

/**
 * A button with an icon. `key` is the key that does the same, where there is one.
 * @param {keyof typeof PATHS} name
 * @param {string} label
 * @param {() => void} act
 * @param {string} [key]
 */
export function iconButton(name, label, act, key) {
  const title = key ? `${label} (${key})` : label;
  const attributes = { type: "button", class: `btn btn-${name}`, "aria-label": label, title };
  return el("button", { ...attributes, onclick: act }, icon(PATHS[name]));
}

/**
 * Shows on a play button what it does now.
 * @param {HTMLButtonElement} button
 * @param {boolean} playing
 */
export function showPlaying(button, playing) {
  const label = playing ? "Pause" : "Play";
  if (button.getAttribute("aria-label") === label) return;
  button.replaceChildren(icon(playing ? PATHS.pause : PATHS.play));
  button.setAttribute("aria-label", label);
  button.title = button.title.replace(/^\w+/, label);
}

/** @param {(speed: number) => void} onSpeed */
export function speedSelect(onSpeed) {
  const options = SPEEDS.map((value) => el("option", { value, text: speedName(value) }));
  const select = el("select", { "aria-label": "Speed" }, ...options);
  select.addEventListener("change", () => onSpeed(+select.value));
  return select;
}
