// The dashboard's script: fetches the slow parts of a page when they are reached, and sends the two forms.
// A brush over a time line becomes the page's time range (figures.js), which `visit` shows.
// Parts are markup made by this server alone; nothing else is ever put into the page as markup.

import { enhance } from "/static/tables.js";

// Parts of the page itself; one of them may bring parts of its own.
const OF_PAGE = "main [data-fragment]:not([data-fragment] [data-fragment])";

// The server draws figures for the screen that asks, and again when a window is made narrow or a phone is turned.
const narrow = matchMedia("(max-width:699px)");
narrow.addEventListener("change", () => {
  for (const place of document.querySelectorAll(`${OF_PAGE}[data-filled]`)) fill(place, place.dataset.fragment);
});

async function fill(place, address, options) {
  place.setAttribute("aria-busy", "true");
  place.asked = address;
  try {
    const screen = narrow.matches ? "narrow" : "wide";
    const response = await fetch(address, { ...options, headers: { "ioweather-screen": screen, "ioweather-width": String(Math.floor(place.clientWidth)), ...options?.headers } });
    const type = response.headers.get("content-type") || "";
    if (!type.startsWith("text/html")) throw new Error("the server answered " + response.status);
    const text = await response.text();
    if (place.asked !== address) return;  // something else was asked for meanwhile
    place.innerHTML = text;
    place.hidden = isSaid(place);
    enhance(place);
    for (const inner of place.querySelectorAll("[data-fragment]")) seen.observe(inner);
  } catch (error) {
    if (!place.dataset.filled) say(place, "This section could not be loaded: " + error.message);
  }
  place.dataset.filled = "yes";
  place.setAttribute("aria-busy", "false");
}

// Parts that lack the same thing say so once; under a heading of its own each does, unless the page itself says so.
function isSaid(place) {
  const lack = (part) => part.querySelector(":scope > .problem:only-child, :scope > h1 + .problem:last-child")?.textContent;
  const before = place.previousElementSibling, heading = before?.tagName === "H2" ? before : null;
  const text = lack(place), isOfPage = Boolean(text) && document.querySelector("main > .problem")?.textContent === text;
  if (heading) heading.hidden = isOfPage;
  if (isOfPage || !text || heading) return isOfPage;
  const others = [...document.querySelectorAll("[data-fragment]:not([hidden])")].filter((part) => part !== place);
  return others.some((part) => lack(part) === text);
}

function say(place, text, kind = "problem") {
  const line = document.createElement("p");
  line.className = kind;
  line.setAttribute("role", "status");
  line.textContent = text;
  place.replaceChildren(line);
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    start(entry.target);
  }
}, { rootMargin: "400px" });

async function start(place) {
  const again = Number(place.dataset.every || 0) * 1000;
  await fill(place, place.dataset.fragment);
  if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  if (!again) return;
  setInterval(() => { if (!document.hidden) fill(place, place.dataset.fragment); }, again);
}

for (const place of document.querySelectorAll("[data-fragment]")) seen.observe(place);
enhance(document);

// A link to an exhibit leads to its slot before the exhibit itself is there.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const name = link && decodeURIComponent(link.getAttribute("href").slice(1));
  const slot = name && !document.getElementById(name) && document.getElementById(name + "-slot");
  if (slot) { event.preventDefault(); slot.scrollIntoView(); }
});

// Another order of a list fills the part that the list is in.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-refill]");
  const place = link?.closest("[data-fragment]");
  if (place) { event.preventDefault(); fill(place, link.href); }
});


// Another range of time without leaving the page: its parts stay until the server has those of the new range.
export async function visit(address) {
  history.pushState(null, "", address);
  const fetched = await fetch(address).then((answer) => answer.text()).catch(() => "");
  const page = new DOMParser().parseFromString(fetched, "text/html");
  const places = [...document.querySelectorAll(OF_PAGE)], others = page.querySelectorAll(OF_PAGE);
  if (location.href !== address.href) return;  // somebody was faster
  if (!others.length || others.length !== places.length) return location.reload();
  for (const linked of ["header", ".crumbs", ".foot"]) {
    const other = page.querySelector(linked);  // the crumbs of a place come with a part
    if (other) document.querySelector(linked)?.replaceWith(other);
  }
  picker();
  places.forEach((place, i) => {
    place.dataset.fragment = others[i].dataset.fragment;
    if (place.dataset.filled) fill(place, place.dataset.fragment);
  });
}
// The refresh picker: all parts again after so many seconds; the choice lasts for the session.
let every = 0;
function pick(seconds) {
  clearInterval(every);
  sessionStorage.setItem("refresh", seconds);
  if (Number(seconds)) every = setInterval(() => {
    if (document.hidden) return;
    for (const place of document.querySelectorAll(`${OF_PAGE}[data-filled]`)) fill(place, place.dataset.fragment);
  }, Number(seconds) * 1000);
}
function picker() {
  const select = document.querySelector("[data-refresh]");
  select.value = sessionStorage.getItem("refresh") ?? "0";
  pick(select.value);
}
picker();
document.addEventListener("change", (event) => { if (event.target.dataset.refresh !== undefined) pick(event.target.value); });

// A menu closes on a click elsewhere and on Escape.
const menus = () => document.querySelectorAll("details.menu[open]");
document.addEventListener("click", (event) => { for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const menu of menus()) { menu.open = false; menu.querySelector("summary").focus(); }
});

addEventListener("popstate", () => location.reload());

const upload = document.querySelector("[data-upload]");
async function explain(file) {
  const place = document.getElementById("uploaded");
  if (!file) return say(place, "Choose a file first.");
  if (file.size > 64 * 1024 * 1024) return say(place, "The file is larger than 64 MiB. Use: ioweather why FILE");
  say(place, "Reading " + file.name + "…", "quiet waiting");
  await fill(place, upload.dataset.upload, {
    method: "POST", body: file, headers: { "content-type": "application/octet-stream" },
  });
}
upload?.addEventListener("submit", (event) => {
  event.preventDefault();
  explain(upload.querySelector("input[type=file]").files[0]);
});
// A log may be dropped anywhere on the page; a browser would otherwise leave the page to open the file.
if (upload) for (const kind of ["dragover", "dragleave", "drop"])
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    upload.classList.toggle("over", kind === "dragover");
    if (kind === "drop") explain(event.dataTransfer.files[0]);
  });

const sql = document.querySelector("[data-sql]");
if (sql) {
  const query = sql.querySelector("textarea");
  const run = async () => {
    const place = document.getElementById("result");
    say(place, "Asking…", "quiet waiting");
    const address = new URL(location.href);
    address.searchParams.set("q", query.value);
    history.replaceState(null, "", address);
    await fill(place, sql.dataset.sql, {
      method: "POST", body: JSON.stringify({ query: query.value }), headers: { "content-type": "application/json" },
    });
  };
  sql.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  query.addEventListener("keydown", (event) => { if (event.ctrlKey && event.key === "Enter") run(); });
  if (new URL(location.href).searchParams.get("q")) run();
}
