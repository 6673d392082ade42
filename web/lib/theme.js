// @ts-check
// The colours of the marks, for light and dark. One colour has one meaning; see the legend.

import { contextOf } from "./canvas.js";

const LIGHT = {
  prefill: "#0072b2",
  decode: "#009e73",
  stall: "#d55e00",
  cached: "#e69f00",
  preempted: "#cc79a7",
  unused: "#eceff3",
  waiting: "#98a2b3",
  line: "#e3e6eb",
  ink: "#16181d",
  muted: "#5b6472",
  paper: "#ffffff",
  panel: "#f7f8fa",
  accent: "#0b5cad",
  onMark: "#ffffff",
  onPreempted: "#16181d",
  stallText: "#a84300",
  decodeText: "#007a59",
  prefillText: "#0b5cad",
};
/** @type {typeof LIGHT} */
const DARK = {
  prefill: "#56b4e9",
  decode: "#2fc79a",
  stall: "#ff8a3d",
  cached: "#f0c14b",
  preempted: "#e5a3c8",
  unused: "#222a36",
  waiting: "#667085",
  line: "#2a3240",
  ink: "#eceff4",
  muted: "#98a2b3",
  paper: "#0e1117",
  panel: "#161b24",
  accent: "#6cb6ff",
  onMark: "#0e1117",
  onPreempted: "#0e1117",
  stallText: "#ff9a55",
  decodeText: "#2fc79a",
  prefillText: "#6cb6ff",
};

/** @typedef {typeof LIGHT & { dark: boolean, font: string }} Theme */

/** @type {Theme} Until the element's own theme is known. */
export const PLAIN = { ...LIGHT, dark: false, font: "sans-serif" };

/**
 * Whether a colour with these channels (0 to 255) is dark.
 * @param {ArrayLike<number>} channels
 */
export const isDark = (channels) =>
  0.299 * channels[0] + 0.587 * channels[1] + 0.114 * channels[2] < 128;

/** @param {string} color a CSS colour */
function channelsOf(color) {
  const context = contextOf(document.createElement("canvas"));
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  return context.getImageData(0, 0, 1, 1).data;
}

/**
 * Reads Streamlit's theme at an element and publishes the colours as --bs-* for the style sheets.
 * Print is always light.
 * @param {HTMLElement} element
 * @returns {Theme}
 */
export function applyTheme(element) {
  const style = getComputedStyle(element);
  const background = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
  const dark = isDark(channelsOf(background)) && !matchMedia("print").matches;
  const colors = dark ? DARK : LIGHT;
  for (const [name, value] of Object.entries(colors)) {
    element.style.setProperty(`--bs-${name}`, value);
  }
  element.dataset.theme = dark ? "dark" : "light";
  return { ...colors, dark, font: style.getPropertyValue("--st-font").trim() || "sans-serif" };
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
