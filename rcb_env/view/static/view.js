// What pages gain with a script: keys, and parts that follow a run while it goes. Without it every page still works.
"use strict";

(() => {
  const POLL_MS = 1500;
  const body = document.body;

  // --- rows and steps: j, k ----------------------------------------------------------------------

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  const here = () => document.querySelector("[data-row].here");

  function mark(row, scroll = true) {
    here()?.classList.remove("here");
    row.classList.add("here");
    const link = row.matches("tr") ? row.querySelector("a.main") : row;
    link?.focus({ preventScroll: true });
    if (scroll) row.scrollIntoView({ block: row.matches("tr") ? "nearest" : "start" });
    follow(row);
  }

  function follow(row) {
    document.querySelectorAll(".steps-nav a.here").forEach((link) => link.classList.remove("here"));
    const link = row.id ? document.querySelector(`.steps-nav a[href="#${CSS.escape(row.id)}"]`) : null;
    link?.classList.add("here");
    link?.scrollIntoView({ block: "nearest" });
  }

  function move(by) {
    const all = rows();
    const at = all.indexOf(here());
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    if (next) mark(next);
  }

  // --- keys ---------------------------------------------------------------------------------------

  const dialog = document.querySelector("dialog.keys");
  const go = (rel) => document.querySelector(`a[rel~="${rel}"]`)?.click();
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    n: () => go("next"),
    p: () => go("prev"),
    u: () => go("up"),
    o: () => here()?.querySelector("a.main")?.click(),
    e: () => {
      const all = [...document.querySelectorAll("main details")];
      const open = !all.every((each) => each.open);
      all.forEach((each) => (each.open = open));
    },
    "/": () => document.querySelector('input[type="search"]')?.focus(),
    "?": () => dialog.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea, dialog");
    if (event.key === "Escape" && typing) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
  const button = document.querySelector("[data-keys]");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }

  // --- a link to a step ---------------------------------------------------------------------------

  function arrive() {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row?.matches("[data-row]")) mark(row);
  }
  addEventListener("hashchange", arrive);
  arrive();

  // --- live ---------------------------------------------------------------------------------------

  const address = body.dataset.live;
  let version = body.dataset.version;

  async function look() {
    if (document.hidden) return;
    const answer = await fetch(address);
    if (!answer.ok) return;
    const now = (await answer.json()).version;
    if (now === version) return;
    const page = await fetch(location.href);
    if (!page.ok) return;
    const fresh = new DOMParser().parseFromString(await page.text(), "text/html");
    version = fresh.body.dataset.version;
    const at = rows().indexOf(here());
    const open = new Set([...document.querySelectorAll("details[id][open]")].map((each) => each.id));
    for (const part of document.querySelectorAll("[data-swap]")) {
      const other = fresh.getElementById(part.id);
      if (!other) continue;
      for (const each of other.querySelectorAll("details[id]")) each.open = open.has(each.id);
      part.replaceWith(document.adoptNode(other));
    }
    if (at >= 0 && rows()[at]) mark(rows()[at], false);
    body.dataset.version = version;
  }

  async function poll() {
    try {
      await look();
    } catch {
      // The server is gone for now: what is shown stays.
    }
    setTimeout(poll, POLL_MS);
  }
  if (address) setTimeout(poll, POLL_MS);
})();
