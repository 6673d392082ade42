// @ts-check
// Mounts a component: one instance per element, its style sheets, and its theme.

import { el } from "./dom.js";

/**
 * What Streamlit hands to a v2 component.
 * @typedef {object} Host
 * @property {HTMLElement | ShadowRoot} parentElement
 * @property {any} data
 * @property {(name: string, value: unknown) => void} setStateValue
 * @property {(name: string, value: unknown) => void} setTriggerValue
 */

/**
 * @typedef {object} Component
 * @property {HTMLElement} root
 * @property {(host: Host) => void} update takes new data
 * @property {() => void} restyle takes a new theme or a new size
 * @property {() => void} close
 */

const BASE = new URL("./style.css", import.meta.url).href;

/**
 * The mount function of a component. Streamlit calls it with every change of data or theme, and what
 * it returns when the element goes.
 * @param {new () => Component} Type
 * @param {string} styleSheet address of the component's own style sheet
 */
export function mountOf(Type, styleSheet) {
  /** @type {WeakMap<Node, { component: Component, close: () => void }>} */
  const mounted = new WeakMap();
  return (/** @type {Host} */ host) => {
    const { parentElement } = host;
    let one = mounted.get(parentElement);
    if (!one) {
      one = attach(new Type(), parentElement, [BASE, styleSheet]);
      mounted.set(parentElement, one);
    }
    one.component.update(host);
    const { close } = one;
    return () => {
      close();
      mounted.delete(parentElement);
    };
  };
}

/**
 * Puts a component into the page; it is shown when its style sheets are there.
 * @param {Component} component
 * @param {HTMLElement | ShadowRoot} parent
 * @param {string[]} sheets
 */
function attach(component, parent, sheets) {
  const { root } = component;
  root.hidden = true;
  const links = sheets.map((href) => el("link", { rel: "stylesheet", href }));
  const loaded = links.map((link) => new Promise((done) => link.addEventListener("load", done)));
  parent.append(...links, root);
  Promise.all(loaded).then(() => {
    parent.querySelector(".skeleton")?.remove();
    root.hidden = false;
    component.restyle();
  });
  const restyle = () => component.restyle();
  for (const name of ["beforeprint", "afterprint"]) addEventListener(name, restyle);
  const close = () => {
    component.close();
    for (const name of ["beforeprint", "afterprint"]) removeEventListener(name, restyle);
  };
  return { component, close };
}
