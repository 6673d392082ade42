// The parts of the timeline and how they stand in the page: built once, filled with every answer.

const v = new URL(import.meta.url).search;
const [{ el }, { Stage }, { Controls }, { Dials }, { Inspector }, { Overview }, { Table }, { Compare }, { Question, Problem, Busy },
  share] = await Promise.all(["dom", "stage", "controls", "dials", "inspector", "overview", "table", "compare", "notice",
  "share"].map((name) => import(`./${name}.js${v}`)));

export function assemble(timeline, parent, styleUrl) {
  const { player } = timeline;
  const on = {
    toggle: () => timeline.toggle(), step: (by) => timeline.move(by), first: () => timeline.jump(0), last: () => timeline.jump(Infinity),
    speed: (value) => { player.speed = value; }, zoom: (factor, px = null) => timeline.zoom(factor, px),
    whole: () => { timeline.view.whole(); timeline.repaint(); }, story: () => timeline.showStory(), axis: (name) => timeline.setAxis(name),
    table: (shown) => timeline.showTable(shown), scrub: (px, released) => timeline.scrub(px, released),
    pan: (px) => { timeline.view.pan(px / timeline.stage.scale); timeline.repaint(); },
    look: (py) => timeline.lookAt(timeline.stage.laneAt(py)), save: () => share.save([timeline.stage.base, timeline.stage.over], timeline.sentence.textContent, timeline.envelope.caption, timeline.theme),
    copy: async () => timeline.controls.showCopied(await share.copy(timeline.query())),
  };
  const act = (id) => timeline.component.setTriggerValue("action", { id });
  timeline.compare = new Compare(act);
  timeline.question = new Question(act);
  timeline.problem = new Problem(act);
  timeline.dials = new Dials((value) => timeline.turn(value), timeline.compare.element);
  timeline.sentence = el("p", { class: "say" });
  timeline.controls = new Controls(on);
  timeline.overview = new Overview((value) => timeline.ask(value));
  timeline.stage = new Stage(on);
  timeline.table = new Table();
  timeline.inspector = new Inspector((k) => timeline.lookAt(k));
  timeline.card = el("div", { class: "card" }, timeline.controls.top, timeline.overview.element,
    el("div", { class: "picture" }, timeline.stage.element, timeline.problem.element), timeline.table.element, timeline.controls.bottom, timeline.inspector.element);
  timeline.busy = new Busy(timeline.card);
  timeline.root = el("div", { class: "bs", hidden: true }, timeline.dials.element, timeline.question.element, timeline.sentence, timeline.card);
  const style = el("link", { rel: "stylesheet", href: styleUrl });
  style.addEventListener("load", () => {
    parent.querySelector(".skeleton")?.remove();
    timeline.root.hidden = false;
    timeline.restyle();
  });
  parent.append(style, timeline.root);
}
