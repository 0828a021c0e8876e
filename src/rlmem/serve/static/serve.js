// What the browser does by itself: sliders that write numbers, copying, sending a description. Everything else is asked for.
(() => {
  "use strict";
  const each = (root, query, act) => { for (const found of root.querySelectorAll(query)) act(found); };

  // -- the token: kept for this origin alone, and sent with what is asked for --------------------------------------------
  const kept = {
    get() { try { return localStorage.getItem("rlmem-token"); } catch { return null; } },
    set(value) { try { localStorage.setItem("rlmem-token", value); } catch { /* then this browser may look only */ } },
  };
  const entrance = document.querySelector("[data-token]");
  if (entrance) { kept.set(entrance.dataset.token); location.replace("/"); }
  document.addEventListener("htmx:configRequest", (event) => {
    if (kept.get()) event.detail.headers.authorization = `Bearer ${kept.get()}`;
  });

  // -- sliders: the same factor a tick, or one more where they have a tick for each value; they write into the field
  // beside them, which is what is sent -----------------------------------------------------------------------------------
  const units = { k: 1e3, m: 1e6, g: 1e9, t: 1e12 };
  function number(text) {
    const match = /^\s*([\d_.,]+)\s*([kmgt]?)\s*$/i.exec(text);
    return match ? parseFloat(match[1].replace(/[_,]/g, "")) * (units[match[2].toLowerCase()] || 1) : NaN;
  }
  const fieldOf = (slider) => document.getElementById(slider.dataset.for);
  const ends = (slider) => [+slider.dataset.low, +slider.dataset.high, +slider.max];
  function place(slider) {
    const [low, high, most] = ends(slider);
    const value = number(fieldOf(slider).value);
    const share = high - low === most ? (value - low) / most : Math.log(value / low) / Math.log(high / low);
    if (value > 0 && high > low && slider !== document.activeElement) slider.value = Math.round(most * share);
    slider.setAttribute("aria-valuetext", fieldOf(slider).value);
  }
  function write(slider) {
    const [low, high, most] = ends(slider);
    const value = high - low === most ? low + +slider.value : low * (high / low) ** (slider.value / most);
    const scale = high - low === most ? 1 : 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
    fieldOf(slider).value = String(Math.max(low, Math.round(value / scale) * scale));
    slider.setAttribute("aria-valuetext", fieldOf(slider).value);
  }
  document.addEventListener("input", (event) => {
    const isSlider = event.target.matches?.('input[type="range"]');
    if (isSlider) write(event.target);
    else each(document, `[data-for="${CSS.escape(event.target.id || " ")}"]`, place);
    const field = isSlider ? fieldOf(event.target) : event.target;
    if (field.dataset.knob) field.dataset.turned = "";
  }, true);

  // -- knobs that nobody turned are not sent, and follow what the others make of them ------------------------------------
  document.addEventListener("htmx:configRequest", (event) => {
    each(document, "[data-knob]:not([data-turned])", (field) => { delete event.detail.parameters[field.name]; });
    if (event.detail.path === "/planner/picture") each(document, ".later", (later) => htmx.trigger(later, "htmx:abort"));
  });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    const news = event.detail.xhr.getResponseHeader("x-rlmem-knobs");
    if (!news) return;
    const { paths, values, address } = JSON.parse(news);
    const sent = event.detail.requestConfig.parameters;
    const shown = [...document.querySelectorAll("[data-knob]")];
    for (const field of shown.filter((each) => each.dataset.knob in values)) {
      if ("turned" in field.dataset && sent[field.name] !== field.value) continue;  // turned since this was asked
      delete field.dataset.turned;
      if (field !== document.activeElement) field.value = values[field.dataset.knob];
    }
    each(document, "input[type=range]", place);
    if (paths.join() !== shown.map((each) => each.dataset.knob).join()) {
      htmx.ajax("GET", address, { target: "#knobs", select: "#knobs", swap: "outerHTML" });
    }
  });

  // -- copying ---------------------------------------------------------------------------------------------------------
  async function copy(button, text) {
    const said = button.parentElement.querySelector(".said");
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = `${button.textContent}: done`;
    } catch {
      said.textContent = "The browser does not allow copying here; the texts are below.";
      const below = button.parentElement.querySelector("details");
      if (below) below.open = true;
    }
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button?.dataset.do === "copy") copy(button, button.dataset.text);
    if (button?.dataset.do === "link") copy(button, location.href);
  });

  // -- forms that go somewhere -----------------------------------------------------------------------------------------
  document.addEventListener("change", (event) => {
    const form = event.target.closest('form[data-submit="change"]');
    if (form && event.target.value) form.submit();
    if (event.target.matches("#config-file")) read(event.target);
  });
  document.addEventListener("submit", (event) => {
    const go = event.target.closest("form[data-go]");
    const config = event.target.closest("form[data-config]");
    if (go) { event.preventDefault(); location.href = go.dataset.go + encodeURIComponent(go.querySelector("input").value.trim()); }
    if (config) { event.preventDefault(); send(config); }
  });
  const tooLarge = (form, size) => {
    const most = +form.querySelector("#config-file").dataset.most;
    return size > most ? `too large: ${size.toLocaleString("en")} B; a description has at most ${most.toLocaleString("en")} B` : "";
  };
  async function read(input) {
    const form = input.closest("form");
    const file = input.files[0];
    if (!file) return;
    const problem = tooLarge(form, file.size);
    form.querySelector(".said").textContent = problem || `${file.name} is in the field above`;
    if (!problem) form.querySelector("textarea").value = await file.text();
  }
  async function send(form) {
    const said = form.querySelector(".said");
    const body = new TextEncoder().encode(form.querySelector("textarea").value);
    said.textContent = tooLarge(form, body.length) || "…";
    if (said.textContent !== "…") return;
    try {
      const answer = await fetch(form.dataset.config, { method: "POST", body, headers: { "content-type": "text/plain" } });
      const found = answer.headers.get("content-type")?.includes("json") ? await answer.json() : { error: await answer.text() };
      if (found.url) location.href = found.url;
      else said.textContent = found.error;
    } catch (error) {
      said.textContent = `the server does not answer (${error.message})`;
    }
  }

  // -- what was unfolded stays unfolded when a picture is drawn again; a server that is gone is said ---------------------
  const called = (details) => details.querySelector("summary .name, summary")?.textContent;
  let opened = new Set();
  document.addEventListener("htmx:beforeSwap", (event) => {
    opened = new Set();
    each(event.detail.target, "details[open]", (details) => opened.add(called(details)));
    // A picture is a thousand elements; htmx would take leave of each of them, and look for ones to merge.
    if (event.detail.target.id === "picture" && event.detail.shouldSwap) event.detail.target.replaceChildren();
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const root = event.detail.target.isConnected ? event.detail.target : document;
    each(root, "details:not([open])", (details) => { if (opened.has(called(details))) details.open = true; });
    each(document, "input[type=range]", place);
    document.documentElement.dataset.drawn = String(1 + +(document.documentElement.dataset.drawn || 0));
  });
  for (const name of ["htmx:sendError", "htmx:responseError"]) {
    document.addEventListener(name, (event) => {
      const status = event.detail.xhr?.status;
      document.body.dataset.lost = status ? `the server answered ${status}` : "the server does not answer; is 'rlmem serve' still running?";
    });
  }
  document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) delete document.body.dataset.lost; });
  each(document, "input[type=range]", place);

  // What was turned before this could listen, or was kept by the browser over a reload, is turned now.
  document.addEventListener("DOMContentLoaded", () => {
    const asShown = (field) => field.options ? field.options[field.selectedIndex]?.defaultSelected : field.value === field.defaultValue;
    each(document, "#knobs [name]:not([type=hidden])", (field) => {
      if (!asShown(field)) field.dispatchEvent(new Event("input", { bubbles: true }));
    });
  });
})();
