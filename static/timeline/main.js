// Entry of the timeline: one Timeline an element, told of every change of data or theme.

const v = new URL(import.meta.url).search;
const { Timeline } = await import(`./timeline.js${v}`);

const mounted = new WeakMap();

// component: what Streamlit hands a v2 component. Returns the clean-up, called when the element goes.
export function mount(component) {
  const { parentElement } = component;
  let timeline = mounted.get(parentElement);
  if (!timeline) {
    timeline = new Timeline(parentElement, new URL(`style.css${v}`, import.meta.url).href);
    mounted.set(parentElement, timeline);
  }
  timeline.update(component);
  return () => {
    timeline.close();
    mounted.delete(parentElement);
  };
}
