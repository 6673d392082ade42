// Building elements. Text goes in by textContent alone: labels come from files people upload.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function icon(path) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 12 12");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

// Spans of text: pairs of [words, class or true for bold].
export function spans(parts) {
  return parts.map(([text, kind]) => {
    if (!kind) return document.createTextNode(text);
    return kind === true ? el("b", { text }) : el("em", { class: `tone-${kind}`, text });
  });
}

// Sets text only when it changed: live regions and layout stay quiet.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Words that show their definition on hover, focus and tap.
export function term(text, tip) {
  if (!tip) return document.createTextNode(text);
  return el("span", { class: "term", tabindex: 0 }, text, el("span", { class: "definition", role: "tooltip", text: tip }));
}
