// The dashboard's script: fetches the slow parts of a page when they are reached, and sends the two forms.
// Parts are markup made by this server alone; nothing else is ever put into the page as markup.

async function fill(place, address, options) {
  place.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(address, options);
    const type = response.headers.get("content-type") || "";
    if (!type.startsWith("text/html")) throw new Error("the server answered " + response.status);
    place.innerHTML = await response.text();
  } catch (error) {
    if (!place.dataset.filled) say(place, "This part could not be fetched: " + error.message);
  }
  place.dataset.filled = "yes";
  place.setAttribute("aria-busy", "false");
}

function say(place, text) {
  const line = document.createElement("p");
  line.className = "problem";
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

// A link to an exhibit leads to its slot before the exhibit itself is there.
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  const name = link && decodeURIComponent(link.getAttribute("href").slice(1));
  const slot = name && !document.getElementById(name) && document.getElementById(name + "-slot");
  if (slot) { event.preventDefault(); slot.scrollIntoView(); }
});

for (const choice of document.querySelectorAll("[data-submit]"))
  choice.addEventListener("change", () => choice.form.submit());

const upload = document.querySelector("[data-upload]");
upload?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const place = document.getElementById("uploaded");
  const file = upload.querySelector("input[type=file]").files[0];
  if (!file) return say(place, "Choose a file first.");
  if (file.size > 64 * 1024 * 1024) return say(place, "The file is larger than 64 MiB. Use: ioweather why FILE");
  say(place, "Reading " + file.name + "…");
  await fill(place, upload.dataset.upload, {
    method: "POST", body: file, headers: { "content-type": "application/octet-stream" },
  });
});

const sql = document.querySelector("[data-sql]");
if (sql) {
  const query = sql.querySelector("textarea");
  const run = async () => {
    const place = document.getElementById("result");
    say(place, "Asking…");
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
