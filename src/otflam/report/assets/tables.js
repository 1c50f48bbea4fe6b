"use strict";
// Tables: sorted by a click on a column's head, copied as CSV, and with their first columns in sight while they scroll.
(() => {
  const amount = (text) => {
    const found = text.replace("−", "-").match(/^-?\d[\d,]*\.?\d*(e[-+]?\d+)?/i);
    return found ? parseFloat(found[0].replaceAll(",", "")) : NaN;
  };
  const missing = (text) => text === "–" || text === "";
  const compare = (a, b) => {
    const [x, y] = [amount(a), amount(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  };
  const cellsOf = (row) => [...row.cells].map((cell) => cell.textContent.trim());
  const next = { none: "ascending", ascending: "descending", descending: "none" };

  for (const table of document.querySelectorAll(".scroll table")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const order = next[head.getAttribute("aria-sort")];
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", order);
        const rows = [...original];
        const text = (row) => row.cells[column].textContent.trim();
        if (order !== "none") {
          const sign = order === "ascending" ? 1 : -1;
          rows.sort((a, b) => missing(text(a)) - missing(text(b)) || sign * compare(text(a), text(b)));
        }
        body.append(...rows);
      });
    });
  }

  // What a row is about stays in sight, as far as it leaves room for numbers.
  const hold = () => {
    for (const table of document.querySelectorAll(".scroll table")) {
      const room = 0.7 * table.parentElement.clientWidth;
      const heads = [...table.tHead.rows[0].cells].slice(0, Number(table.dataset.names));
      if (!room) continue;
      const widths = heads.map((head) => head.getBoundingClientRect().width);
      let held = 0;
      for (let left = 0; held < widths.length && (held === 0 || left + widths[held] <= room); held++) left += widths[held];
      for (const row of table.rows) {
        let left = 0;
        heads.forEach((_, column) => {
          const cell = row.cells[column];
          cell.classList.toggle("stuck", column < held);
          cell.classList.toggle("last", column === held - 1);
          cell.style.left = column < held ? `${left}px` : "";
          left += widths[column];
        });
      }
    }
  };
  for (const details of document.querySelectorAll("details.table")) details.addEventListener("toggle", hold);
  addEventListener("resize", hold);
  hold();

  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Some browsers give a page from the disk no clipboard, but still obey this.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) throw new Error("no clipboard");
    }
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const rows = [...button.closest(".part").querySelectorAll("tr")].map((row) => cellsOf(row).map(quote).join(","));
      let told = "Copied";
      try {
        await copy(rows.join("\n") + "\n");
      } catch {
        told = "No clipboard";
      }
      button.textContent = told;
      setTimeout(() => (button.textContent = "Copy as CSV"), 1600);
    });
  }

  const links = [...document.querySelectorAll(".sections a")];
  const watch = new IntersectionObserver(
    (seen) => {
      for (const each of seen) {
        if (!each.isIntersecting) continue;
        for (const link of links) link.classList.toggle("here", link.hash === `#${each.target.id}`);
      }
    },
    { rootMargin: "-30% 0px -65% 0px" },
  );
  for (const section of document.querySelectorAll("main > section")) watch.observe(section);
})();
