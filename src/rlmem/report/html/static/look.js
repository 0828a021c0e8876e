// What a page does by itself: another light, saving its data, paper, unfolding what a link leads to.
(() => {
  "use strict";
  const root = document.documentElement;
  const store = {
    get() { try { return localStorage.getItem("rlmem-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("rlmem-theme", value); } catch { /* a page from disk may have no storage */ } },
  };
  const prefersDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const isDark = () => (root.dataset.theme || (prefersDark() ? "dark" : "light")) === "dark";

  function show(theme) {
    if (theme) root.dataset.theme = theme;
    for (const button of document.querySelectorAll('[data-do="theme"]')) {
      button.textContent = isDark() ? "Switch to light" : "Switch to dark";
    }
  }

  const actions = {
    theme() { const next = isDark() ? "light" : "dark"; store.set(next); show(next); },
    print() { print(); },
    save() {
      const data = document.getElementById("data").textContent;
      const link = document.createElement("a");
      link.href = "data:application/json;charset=utf-8," + encodeURIComponent(JSON.stringify(JSON.parse(data), null, 2));
      link.download = (document.title.split(" – ")[0].replace(/[^\w.-]+/g, "-") || "report") + ".json";
      link.click();
    },
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button && actions[button.dataset.do]) actions[button.dataset.do]();
  });

  // On paper everything that unfolds is open.
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of opened) each.open = false; });

  const theme = store.get();
  show(theme === "dark" || theme === "light" ? theme : "");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(""));
})();
