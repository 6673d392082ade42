// Pointer, wheel and keys on the picture: scrub, pan, pinch, zoom.

const LEFT = { ArrowLeft: -1, ArrowRight: 1 };

// on: { look(py), scrub(px, released), zoom(factor, px), pan(px), hover(px, py), leave, toggle, step(by), first, last }
export function listen(stage, on) {
  const pointers = new Map();
  let spread = 0;
  // Pixels of the picture: the page may be drawn larger than it is laid out (?scale=1.5).
  const inside = (x, y) => {
    const box = stage.getBoundingClientRect(), zoom = box.width / stage.offsetWidth || 1;
    return [(x - box.left) / zoom, (y - box.top) / zoom];
  };
  const px = (event) => inside(event.clientX, event.clientY)[0];
  const py = (event) => inside(event.clientX, event.clientY)[1];

  stage.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    pointers.set(event.pointerId, event.clientX);
    stage.setPointerCapture(event.pointerId);
    if (pointers.size === 1 && !event.shiftKey) {
      on.look(py(event));
      on.scrub(px(event), false);
    }
    spread = distance(pointers);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) {
      on.hover(px(event), py(event));
      return;
    }
    const before = pointers.get(event.pointerId);
    pointers.set(event.pointerId, event.clientX);
    if (pointers.size > 1) {
      const now = distance(pointers);
      if (spread > 8 && now > 8) on.zoom(spread / now, inside(middle(pointers), 0)[0]);
      spread = now;
    } else if (event.shiftKey) {
      on.pan(before - event.clientX);
    } else {
      on.scrub(px(event), false);
      on.hover(px(event), py(event));
    }
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (pointers.size === 0) on.scrub(null, true);
    spread = distance(pointers);
  };
  stage.addEventListener("pointerup", release);
  stage.addEventListener("pointercancel", release);
  stage.addEventListener("pointerleave", () => on.leave());

  // A pinch on a trackpad arrives as a wheel with ctrl; a plain wheel keeps scrolling the page.
  stage.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      on.zoom(Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.004)), px(event));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      on.pan(event.deltaX || event.deltaY);
    }
  }, { passive: false });

  stage.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const width = stage.clientWidth, act = {
      " ": () => on.toggle(), Home: () => on.first(), End: () => on.last(),
      ArrowUp: () => on.step(1), ArrowDown: () => on.step(-1), PageUp: () => on.step(10), PageDown: () => on.step(-10),
      "+": () => on.zoom(1 / 1.6, null), "=": () => on.zoom(1 / 1.6, null), "-": () => on.zoom(1.6, null), "0": () => on.whole(),
    }[event.key];
    const by = LEFT[event.key];
    if (by && event.shiftKey) on.pan((by * width) / 6);
    else if (by) on.step(by);
    else if (act) act();
    else return;
    event.preventDefault();
  });
}

function distance(pointers) {
  const [a, b] = [...pointers.values()];
  return b === undefined ? 0 : Math.abs(a - b);
}

function middle(pointers) {
  const [a, b] = [...pointers.values()];
  return (a + b) / 2;
}
