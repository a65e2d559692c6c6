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

async function draw(figure) {
  const [, dark] = await fetched();
  const both = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
  const spec = narrow.matches ? both.narrow : both.wide;
  const place = document.createElement("div");
  place.className = "live";
  const view = await window.vegaEmbed(place, night.matches ? recolour(spec, dark) : spec, {
    mode: "vega-lite", ast: true, actions: false, renderer: "canvas", defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  });
  figure.querySelector(".live")?.remove();
  figure.prepend(place);
  figure.dataset.live = "drawn";
  return view;
}

async function enliven(figure) {
  figure.dataset.live = "drawing";
  // The drawing stays where the chart cannot be had.
  try { await draw(figure); } catch (error) { figure.dataset.live = "still"; console.warn(error); }
}

document.addEventListener("pointerover", (event) => {
  const figure = event.target.closest?.('figure[data-live=""]');
  if (figure) enliven(figure);
});

for (const change of [narrow, night])
  change.addEventListener("change", () => document.querySelectorAll('figure[data-live="drawn"]').forEach(draw));
