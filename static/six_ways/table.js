// The lanes as a table: a row a way and request.

const v = new URL(import.meta.url).search;
const [{ el }, { count, seconds, moment, limitOf }] = await Promise.all(["dom", "format"].map((name) => import(`../timeline/${name}.js${v}`)));

export function tableOf(scenes, lanes) {
  const limit = scenes.find(Boolean)?.lane;
  const heads = ["Way", "Request", "Arrives", "First token after", "Prefill chunks", "Tokens", limit ? `Gaps above ${limitOf(limit)}` : "Gaps", "State at the end"];
  const rows = scenes.flatMap((scene, k) => (scene ? scene.rows.map((row) => [lanes[k].title, ...cells(row, lanes[k].arrives)]) : [[lanes[k].title, lanes[k].problem, "", "", "", "", "", "refused"]]));
  return el("table", {}, el("caption", { text: "What each way does with each request" }),
    el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, i) => (i ? el("td", { text }) : el("th", { scope: "row", text })))))));
}

// arrives: what arriving means in a lane, where it is not the request's own arrival.
function cells(row, arrives) {
  const ttft = row.firstTokenS - row.arrivalS;
  return [
    row.label, Number.isFinite(row.arrivalS) ? `${moment(row.arrivalS)}${arrives ? `, ${arrives}` : ""}` : "never", Number.isFinite(ttft) ? seconds(ttft) : "none", count(row.chunks.length), count(row.ticks.length),
    row.bands.map((band) => seconds(band.gap)).join(", ") || "none", row.status,
  ];
}
