// Entry of the lanes: one Lanes an element, told of every change of data or theme.

const v = new URL(import.meta.url).search;
const { Lanes } = await import(`./lanes.js${v}`);

const mounted = new WeakMap();

// component: what Streamlit hands a v2 component. Returns the clean-up, called when the element goes.
export function mount(component) {
  const { parentElement } = component;
  let lanes = mounted.get(parentElement);
  if (!lanes) {
    const sheets = ["../timeline/style.css", "./style.css"].map((path) => new URL(`${path}${v}`, import.meta.url).href);
    lanes = new Lanes(parentElement, sheets);
    mounted.set(parentElement, lanes);
  }
  lanes.update(component);
  return () => {
    lanes.close();
    mounted.delete(parentElement);
  };
}
