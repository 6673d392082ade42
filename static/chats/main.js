// Entry of the chat windows: one Chats an element, told of every change of data.

const v = new URL(import.meta.url).search;
const { Chats } = await import(`./chats.js${v}`);

const mounted = new WeakMap();

export function mount(component) {
  const { parentElement } = component;
  let chats = mounted.get(parentElement);
  if (!chats) {
    chats = new Chats(parentElement, new URL(`style.css${v}`, import.meta.url).href);
    mounted.set(parentElement, chats);
  }
  chats.update(component);
  return () => {
    chats.close();
    mounted.delete(parentElement);
  };
}
