// A drawing becomes a chart that answers the pointer when one first comes over it: Vega (0.9 MB) is fetched only then.
// `ast` makes Vega interpret its expressions and the two styles are ours, so that the page's policy allows all of it.

import { visit } from "/static/app.js";

const night = matchMedia("(prefers-color-scheme:dark)");
let tools;

const fetched = () => tools ??= Promise.all([
  import("/vega.js"), fetch("/dark.json").then((answer) => answer.json()),
]);

function recolour(value, dark, key) {
  if (key === "data") return value;
  if (typeof value === "string") return dark[value] || value;
  if (Array.isArray(value)) return value.map((item) => recolour(item, dark));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, recolour(part, dark, name)]));
}

// Layers whose x is a time, in milliseconds since 1970. A stretch that is brushed over there becomes the page's range: all
// time lines show it at once from what they have, then the server draws it as finely as it was recorded.
const timed = (layer) => layer.encoding?.x?.type === "temporal" && layer.encoding.x.scale?.domainMin?.expr !== undefined;

function zoomable(spec, brush) {
  const layers = spec.layer?.filter(timed) ?? [];
  if (!layers.length) return null;
  const { field, scale } = layers[0].encoding.x;
  const start = { low: Number(scale.domainMin.expr), high: Number(scale.domainMax.expr), zoomed: false };
  spec.params = [...(spec.params ?? []), ...Object.entries(start).map(([name, value]) => ({ name, value }))];
  for (const { encoding } of layers)
    encoding.x.scale = { ...encoding.x.scale, domainMin: { expr: "low" }, domainMax: { expr: "high" } };
  // Shaded times and moments, and their labels above the plot, have pixels: they move with a zoom.
  const share = (pixel) => `(${start.low}+${pixel / spec.width * (start.high - start.low)}-low)/(high-low)`;
  for (const { encoding, mark } of spec.layer) {
    const { x, x2, y, y2 } = encoding ?? {};
    const isLabel = y?.value < 0, isTall = y?.value === 0 && Math.abs(y2?.value - spec.height) < 1;
    if (x?.value === undefined || !(isLabel || isTall)) continue;
    if (isLabel) mark.opacity = { expr: `abs(${share(x.value)}-.5)>.5?0:1` };
    for (const place of [x, x2])
      if (place) place.value = { expr: `width*max(0,min(1,${share(place.value)}))` };
  }
  // Points that only a pointer needs are most of a chart's marks: until the server has drawn it they are left out.
  for (const layer of layers)
    if (layer.name === "hover") layer.transform = [{ filter: "!zoomed" }, ...(layer.transform ?? [])];
  if (brush) layers[0].params = [{ name: "brush", select: { type: "interval", encodings: ["x"] } }];
  return field;
}

const MINUTE = 60000;

async function zoom(low, high) {
  await Promise.all([...shown].filter(({ place }) => place.isConnected).map(({ view, brush }) => {
    const set = { low, high, zoomed: true, ...(brush && { brush_x: [0, 0] }) };
    for (const [name, value] of Object.entries(set)) view.signal(name, value);
    return view.runAsync();
  }));
}

function follow(view, field, place) {
  let chosen = null;
  view.addSignalListener("brush", (name, value) => { chosen = value[field] ?? Object.values(value)[0] ?? null; });
  place.addEventListener("pointerup", async (event) => {
    await view.runAsync();
    if (!chosen || Math.abs(chosen[1] - chosen[0]) < MINUTE) return;
    const low = Math.floor(Math.min(...chosen) / MINUTE) * MINUTE, high = Math.ceil(Math.max(...chosen) / MINUTE) * MINUTE;
    const address = new URL(location.href);
    for (const [name, moment] of [["from", low], ["to", high]])
      address.searchParams.set(name, new Date(moment).toISOString().slice(0, 16));
    await zoom(low, high);
    document.getElementById("vg-tooltip-element")?.classList.remove("visible");  // of a point that is elsewhere now
    requestAnimationFrame(() => {
      performance.measure("zoom", { start: event.timeStamp });  // benchmarks read it
      setTimeout(visit, 0, address);  // what follows must not hold up this frame
    });
  });
}

// Time lines of a page share their cursor: all show the moment at which the pointer is in one of them.
const shown = new Set();

function share(view, place, brush) {
  const mark = document.createElement("span");
  mark.className = "cursor";
  mark.setAttribute("aria-hidden", "true");
  mark.hidden = true;
  place.append(mark);
  const line = { view, place, mark, brush };
  shown.add(line);
  place.addEventListener("pointermove", (event) => {
    const left = place.querySelector("canvas").getBoundingClientRect().left + view.origin()[0];
    point(view.scale("x").invert(event.clientX - left));
  });
  place.addEventListener("pointerleave", () => point(null));
}

function point(moment) {
  for (const line of shown) {
    const { view, place, mark } = line;
    if (!place.isConnected) { shown.delete(line); continue; }
    const x = moment === null ? NaN : view.scale("x")(moment);
    mark.hidden = !(x >= 0 && x <= view.width());
    if (mark.hidden) continue;
    const canvas = place.querySelector("canvas");
    mark.style.left = canvas.offsetLeft + view.origin()[0] + x + "px";
    mark.style.top = canvas.offsetTop + view.origin()[1] + "px";
    mark.style.height = view.height() + "px";
    mark.classList.toggle("late", x > view.width() / 2);
    mark.dataset.moment = new Date(moment).toISOString().slice(0, 16).replace("T", " ");
  }
}

// What scrolls must be reached by the keyboard too.
function reachable(place) {
  place.tabIndex = 0;
  place.setAttribute("role", "region");
  place.setAttribute("aria-label", "Chart, scrolls");
}

// The picture is drawn for a screen and shrinks to its box; the chart gets the size that the picture has there. Plots
// take all of it: letters keep their size. What is marked at a pixel of a plot moves with the plot's size.
function fit(spec, figure) {
  const { width, height } = figure.querySelector("svg").viewBox.baseVal;
  const lost = 1 - Math.min(1, figure.clientWidth / width);
  if (lost > 0) shrink(spec, Math.ceil(width * lost), Math.ceil(height * lost));
}

function shrink(part, x, y) {
  const rows = part.vconcat?.length ?? Math.ceil((part.concat?.length ?? 1) / (part.columns ?? 1));
  const columns = part.hconcat?.length ?? part.columns ?? 1;
  const inner = part.vconcat ?? part.hconcat ?? part.concat;
  if (inner) { for (const each of inner) shrink(each, x / columns, y / rows); return; }
  const sizes = { x: [part.width, part.width - x], y: [part.height, Math.max(part.height - y, 60)] };
  [part.width, part.height] = [sizes.x[1], sizes.y[1]];
  for (const layer of [part, ...(part.layer ?? [])])
    for (const [channel, { value } = {}] of Object.entries(layer.encoding ?? {})) {
      const [before, after] = sizes[channel[0]] ?? [];
      if (/^[xy]2?$/.test(channel) && value > 0) layer.encoding[channel].value = value * after / before;
    }
}

const specOf = (figure) => JSON.parse(figure.querySelector("script[type='application/json']").textContent);
const isTimed = (figure) => specOf(figure).layer?.some(timed);

async function draw(figure) {
  const [, dark] = await fetched();
  const spec = specOf(figure);
  fit(spec, figure);
  const place = document.createElement("div");
  place.className = "live";
  const brush = Boolean(figure.closest("[data-brush]"));
  const field = zoomable(spec, brush);
  const embed = () => window.vegaEmbed(place, night.matches ? recolour(spec, dark) : spec, {
    mode: "vega-lite", ast: true, actions: false, renderer: "canvas", defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
  let { view, finalize } = await embed();
  // The browser's letters may be wider than those of the picture.
  const over = Math.ceil(place.querySelector("canvas").width / devicePixelRatio - figure.clientWidth);
  if (over > 0) {
    finalize();
    shrink(spec, over, 0);
    ({ view } = await embed());
  }
  figure.querySelector(".live")?.remove();
  figure.prepend(place);
  figure.dataset.live = "drawn";
  if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) reachable(place);
  if (field && brush) follow(view, field, place);
  if (field) share(view, place, brush);
}

async function enliven(figure) {
  figure.dataset.live = "drawing";
  // The drawing stays where the chart cannot be had.
  try { await draw(figure); } catch (error) { figure.dataset.live = "still"; console.warn(error); }
}

document.addEventListener("pointerover", (event) => {
  const figure = event.target.closest?.('figure[data-live=""]');
  if (!figure) return;
  const others = isTimed(figure) ? document.querySelectorAll('figure[data-live=""]') : [];
  for (const each of [figure, ...[...others].filter((other) => other !== figure && isTimed(other))]) enliven(each);
});

const redraw = () => document.querySelectorAll('figure[data-live="drawn"]').forEach(draw);
night.addEventListener("change", redraw);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 200); });
