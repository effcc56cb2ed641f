// Behaviour of the pages, by data-* attributes only. Without this file every page still reads and every form still posts.
"use strict";
(() => {
  const root = document.documentElement;
  const stored = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private window: not kept */ } };
  root.dataset.js = "";
  for (const name of ["theme", "rail"]) if (stored(name)) root.dataset[name] = stored(name);

  // Times: the server writes UTC; here they get the viewer's zone, and stay fresh.
  const absolute = new Intl.DateTimeFormat("sv-SE", {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    fractionalSecondDigits: 3, timeZoneName: "short",
  });
  const UNITS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const span = (seconds) => {
    const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "s"];
    return `${Math.floor(seconds / size)}\u202f${unit}`;
  };
  const relative = (seconds, form) => {
    const text = span(Math.abs(seconds));
    if (form === "age") return text;
    if (Math.abs(seconds) < 1) return "now";
    return seconds >= 0 ? `${text} ago` : `in ${text}`;
  };
  const refreshTimes = (within) => {
    for (const node of within.querySelectorAll("time[datetime]")) {
      const at = Date.parse(node.dateTime);
      if (Number.isNaN(at)) continue;
      if (!node.dataset.local) { node.title = absolute.format(at); node.dataset.local = "1"; }
      if (node.dataset.form === "clock") node.textContent = absolute.format(at).slice(0, 23).replace(",", ".");
      else if (node.dataset.form) {
        const text = relative((Date.now() - at) / 1000, node.dataset.form);
        if (node.textContent !== text) node.textContent = text;
      }
    }
  };

  const actions = {
    theme() {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      store("theme", root.dataset.theme);
    },
    rail() {
      root.dataset.rail = root.dataset.rail === "narrow" ? "wide" : "narrow";
      store("rail", root.dataset.rail);
    },
    open(button) { document.getElementById(button.dataset.opens)?.showModal(); },
    close(button) { button.closest("dialog")?.close(); },
    async copy(button) {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.dataset.copied = "";
      setTimeout(() => delete button.dataset.copied, 1200);
    },
  };
  const actionOf = (node) => node.dataset.act ?? (node.dataset.copy ? "copy" : node.dataset.opens ? "open" : "");
  document.addEventListener("click", (event) => {
    const node = event.target.closest?.("[data-act], [data-copy], [data-opens]");
    if (node) actions[actionOf(node)]?.(node);
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("[data-submits]")) event.target.form.requestSubmit();
    const unfolds = event.target.dataset?.unfolds;
    if (unfolds) document.getElementById(unfolds).open = true;
  });

  // Keys: / searches, j and k walk the rows of a grid, Enter follows the row's link.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
    if (event.key === "/") { event.preventDefault(); document.querySelector("[role=search] input")?.focus(); }
    if (event.key === "j" || event.key === "k") {
      const links = [...document.querySelectorAll("table.grid [data-row-link]")];
      const at = links.indexOf(document.activeElement);
      links[event.key === "j" ? at + 1 : Math.max(at - 1, 0)]?.focus();
    }
  });

  // A link to an entry (#e12) that this page does not show goes to where it stands.
  const toEntry = () => {
    const number = /^#e(\d+)$/.exec(location.hash)?.[1];
    const run = /^\/runs\/[^/]+\//.exec(location.pathname)?.[0];
    if (number && run && !document.getElementById(`e${number}`)) location.replace(`${run}entries/${number}/#e${number}`);
  };
  const start = () => { toEntry(); refreshTimes(document); setInterval(() => refreshTimes(document), 5000); };
  document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", start) : start();
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.successful) delete root.dataset.offline; else root.dataset.offline = "";
  });
  document.addEventListener("htmx:afterSettle", (event) => refreshTimes(event.target.parentNode ?? document));
})();
