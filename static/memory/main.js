// Entry of the block map: one BlockMap an element, told of every change of data or theme.

const v = new URL(import.meta.url).search;
const { BlockMap } = await import(`./map.js${v}`);

const mounted = new WeakMap();

// component: what Streamlit hands a v2 component. Returns the clean-up, called when the element goes.
export function mount(component) {
  const { parentElement } = component;
  let map = mounted.get(parentElement);
  if (!map) {
    const sheets = ["../timeline/style.css", "./style.css"].map((path) => new URL(`${path}${v}`, import.meta.url).href);
    map = new BlockMap(parentElement, sheets);
    mounted.set(parentElement, map);
  }
  map.update(component);
  return () => {
    map.close();
    mounted.delete(parentElement);
  };
}
