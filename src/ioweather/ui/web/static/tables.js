// Every table can be sorted by its headings, filtered, and taken along as CSV. The rows are those of the page.

const number = (cell) => cell.dataset.value === undefined ? NaN : Number(cell.dataset.value);

function sort(table, column, heading) {
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    const [p, q] = [number(x), number(y)];
    if (Number.isNaN(p) !== Number.isNaN(q)) return Number.isNaN(p) ? 1 : -1;  // what is not known comes last
    const order = Number.isNaN(p) ? x.innerText.localeCompare(y.innerText, "en", { numeric: true }) : p - q;
    return up ? order : -order;
  });
  table.tBodies[0].append(...rows);
}

// A spreadsheet must not take a name for a formula.
const quoted = (text) => '"' + (/^[=+\-@\t\r]/.test(text) ? "'" + text : text).replaceAll('"', '""') + '"';

function csv(table) {
  const lines = [...table.rows].filter((row) => !row.hidden).map((row) =>
    [...row.cells].map((cell) => cell.dataset.value || quoted(cell.innerText.trim())).join(","));
  return lines.join("\n") + "\n";
}

function tools(table) {
  const line = document.createElement("p");
  line.className = "tools";
  if (table.tBodies[0].rows.length > 8) {
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = "search";
    label.append("Filter ", input);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      for (const row of table.tBodies[0].rows)
        row.hidden = !words.every((word) => row.innerText.toLowerCase().includes(word));
    });
    line.append(label);
  }
  const link = document.createElement("a");
  link.textContent = "CSV";
  link.href = "#";
  link.download = (table.caption?.innerText || "table").toLowerCase().replace(/\W+/g, "-") + ".csv";
  link.addEventListener("click", () => {
    link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
  });
  line.append(link);
  return line;
}

// On a narrow screen a table that is too wide becomes a list: each row its name, then its values with their headings.
const narrow = matchMedia("(max-width:699px)");

function fit(place) {
  for (const region of place.querySelectorAll(".scroll")) {
    const table = region.querySelector("table"), headings = table?.tHead?.rows[0].cells;
    if (!headings) continue;
    table.classList.remove("listed");
    if (!narrow.matches || region.scrollWidth <= region.clientWidth) continue;
    table.classList.add("listed");
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, column) => { cell.dataset.heading = headings[column].innerText; });
  }
}

narrow.addEventListener("change", () => fit(document));
document.addEventListener("toggle", (event) => fit(event.target), true);  // what was folded had no width

export function enhance(place) {
  for (const table of place.querySelectorAll("table[data-listed]")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, column, heading));
    });
    if (table.dataset.listed !== "brief") table.closest(".scroll").after(tools(table));
    delete table.dataset.listed;
  }
  fit(place);
}
