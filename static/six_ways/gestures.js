// Pointer and keys on the play head's stage.

// on: { scrub(px, released), toggle, move(by), to("start" | "end"), zoom(factor), whole }
export function listen(stage, on) {
  let held = false;
  const px = (event) => {
    const box = stage.getBoundingClientRect(), zoom = box.width / stage.offsetWidth || 1;
    return (event.clientX - box.left) / zoom;
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    held = true;
    stage.setPointerCapture(event.pointerId);
    on.scrub(px(event), false);
  });
  stage.addEventListener("pointermove", (event) => held && on.scrub(px(event), false));
  for (const name of ["pointerup", "pointercancel"]) {
    stage.addEventListener(name, () => {
      if (held) on.scrub(null, true);
      held = false;
    });
  }
  stage.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const act = {
      " ": () => on.toggle(), ArrowRight: () => on.move(1), ArrowUp: () => on.move(1), ArrowLeft: () => on.move(-1),
      ArrowDown: () => on.move(-1), PageUp: () => on.move(10), PageDown: () => on.move(-10), Home: () => on.to("start"),
      End: () => on.to("end"), "+": () => on.zoom(1 / 1.6), "=": () => on.zoom(1 / 1.6), "-": () => on.zoom(1.6), 0: () => on.whole(),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  });
}
