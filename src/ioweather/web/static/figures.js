// A drawing becomes a chart that answers the pointer when one first comes over it: Vega (0.9 MB) is fetched only then.
// `ast` makes Vega interpret its expressions and the two styles are ours, so that the page's policy allows all of it.

const narrow = matchMedia("(max-width:699px)"), night = matchMedia("(prefers-color-scheme:dark)");
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

// The layer whose x is a time: milliseconds since 1970. A stretch that is brushed over there becomes the page's range, so
// that the server draws it anew as finely as it was recorded, and the address can be shared.
const timed = (layer) => layer.encoding?.x?.field && layer.encoding.x.scale?.domain?.[0] > 1e11;

function brushed(spec) {
  const layer = spec.layer?.find(timed);
  if (!layer) return false;
  layer.params = [{ name: "brush", select: { type: "interval", encodings: ["x"] } }];
  return true;
}

function follow(view, field, place) {
  let chosen = null;
  view.addSignalListener("brush", (name, value) => { chosen = value[field] ?? Object.values(value)[0] ?? null; });
  place.addEventListener("pointerup", () => setTimeout(() => {
    if (!chosen || chosen[1] - chosen[0] < 60000) return;
    const text = (moment, round) => new Date(round(moment / 60000) * 60000).toISOString().slice(0, 16) + "Z";
    const address = new URL(location.href);
    address.searchParams.set("from", text(Math.min(...chosen), Math.floor));
    address.searchParams.set("to", text(Math.max(...chosen), Math.ceil));
    location.assign(address);
  }, 50));
}

// Time lines of a page share their cursor: all show the moment at which the pointer is in one of them.
const shown = new Set();

function share(view, place) {
  const mark = document.createElement("span");
  mark.className = "cursor";
  mark.setAttribute("aria-hidden", "true");
  mark.hidden = true;
  place.append(mark);
  const line = { view, place, mark };
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

const isTimed = (figure) =>
  JSON.parse(figure.querySelector("script[type='application/json']").textContent).wide.layer?.some(timed);

async function draw(figure) {
  const [, dark] = await fetched();
  const both = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
  const spec = narrow.matches ? both.narrow : both.wide;
  const place = document.createElement("div");
  place.className = "live";
  const field = spec.layer?.find(timed)?.encoding.x.field;
  const brush = figure.closest("[data-brush]") && brushed(spec);
  const { view } = await window.vegaEmbed(place, night.matches ? recolour(spec, dark) : spec, {
    mode: "vega-lite", ast: true, actions: false, renderer: "canvas", defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
  figure.querySelector(".live")?.remove();
  figure.prepend(place);
  figure.dataset.live = "drawn";
  if (place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight) reachable(place);
  if (brush) follow(view, field, place);
  if (field) share(view, place);
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

for (const change of [narrow, night])
  change.addEventListener("change", () => document.querySelectorAll('figure[data-live="drawn"]').forEach(draw));
