// The colours of the marks, for light and dark. One colour, one meaning; see the legend.

const LIGHT = {
  prefill: "#0072b2", decode: "#009e73", stall: "#d55e00", cached: "#e69f00", preempted: "#cc79a7",
  unused: "#eceff3", waiting: "#98a2b3", line: "#e3e6eb", ink: "#16181d", muted: "#5b6472", paper: "#ffffff",
  panel: "#f7f8fa", accent: "#0b5cad", onMark: "#ffffff", onPreempted: "#16181d",
  stallText: "#a84300", decodeText: "#007a59", prefillText: "#0b5cad",
};
const DARK = {
  prefill: "#56b4e9", decode: "#2fc79a", stall: "#ff8a3d", cached: "#f0c14b", preempted: "#e5a3c8",
  unused: "#222a36", waiting: "#667085", line: "#2a3240", ink: "#eceff4", muted: "#98a2b3", paper: "#0e1117",
  panel: "#161b24", accent: "#6cb6ff", onMark: "#0e1117", onPreempted: "#0e1117",
  stallText: "#ff9a55", decodeText: "#2fc79a", prefillText: "#6cb6ff",
};

function isDark(color) {
  const scratch = document.createElement("canvas").getContext("2d");
  scratch.fillStyle = color;
  scratch.fillRect(0, 0, 1, 1);
  const [r, g, b] = scratch.getImageData(0, 0, 1, 1).data;
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}

// Reads Streamlit's theme from the element, publishes the colours as --bs-* for the style sheet.
export function read(element) {
  const style = getComputedStyle(element);
  const background = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
  const dark = isDark(background) && !matchMedia("print").matches;
  const theme = { ...(dark ? DARK : LIGHT), dark, font: style.getPropertyValue("--st-font").trim() || "sans-serif" };
  for (const [name, value] of Object.entries(theme)) {
    if (typeof value === "string" && value[0] === "#") element.style.setProperty(`--bs-${name}`, value);
  }
  element.dataset.theme = dark ? "dark" : "light";
  return theme;
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
