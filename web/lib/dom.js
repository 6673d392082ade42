// @ts-check
// Builds elements. Text is set by textContent alone: labels come from files that people upload.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Record<string, any>} Attributes */
/** @typedef {Node | string | null | undefined} Child */
/** Words, and the tone or `true` for bold that they are set in. @typedef {[string, string | boolean]} Part */

/**
 * An element. `class` and `text` set the class and the text, `on...` a listener; null, undefined and
 * false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** @param {string} path */
export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

/**
 * A button that is only words.
 * @param {string} words
 * @param {() => void} act
 * @param {Attributes} [attributes]
 */
export const textButton = (words, act, attributes = {}) =>
  el("button", { type: "button", class: "text", text: words, onclick: act, ...attributes });

/**
 * The nodes of a text with bold and coloured parts.
 * @param {Part[]} parts
 */
export function spans(parts) {
  return parts.map(([text, kind]) => {
    if (!kind) return document.createTextNode(text);
    return kind === true ? el("b", { text }) : el("em", { class: `tone-${kind}`, text });
  });
}

/**
 * Set text only where it changes: live regions and layout stay quiet.
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * A word that shows its definition on hover, focus and tap.
 * @param {string} text
 * @param {string} [definition]
 */
export function term(text, definition) {
  if (!definition) return document.createTextNode(text);
  const box = el("span", { class: "definition", role: "tooltip", text: definition });
  return el("span", { class: "term", tabindex: 0 }, text, box);
}

/**
 * A table whose first column names its rows.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(string | number)[][]} rows
 */
export function table(caption, heads, rows) {
  const head = heads.map((text) => el("th", { scope: "col", text }));
  const body = rows.map((cells) => {
    const [name, ...others] = cells.map(String);
    const first = el("th", { scope: "row", text: name });
    return el("tr", {}, first, ...others.map((text) => el("td", { text })));
  });
  return el(
    "table",
    {},
    el("caption", { text: caption }),
    el("thead", {}, el("tr", {}, ...head)),
    el("tbody", {}, ...body),
  );
}
