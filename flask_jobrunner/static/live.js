// htmx polls at the interval that the server wrote into #jr-poll; this script may only hold it
// back, and says how fresh the page is.
(() => {
  "use strict";

  const BACK_OFF = [2, 4, 8, 16, 30, 60]; // seconds after the first, second, … failure in a row
  const SIGNED_OUT = "You have been signed out. Reload to sign in again.";
  const GONE = {
    400: "This page is out of date. Reload it.",
    403: "You may no longer see this.",
    404: "This job was deleted.",
  };

  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  // The names of htmx 2, and those of htmx 4, which may take its place.
  const on = (names, deed) => names.split(" ").forEach((n) => document.addEventListener(n, deed));
  const poller = () => document.querySelector("#jr-poll[hx-get]");
  let offset = Number(root.dataset.now) - Date.now(); // of the server's clock

  const pace = $("jr-pace");
  let resting = false; // nobody has touched anything for hours
  let ended = false;
  let forced = false; // the next one is by hand
  let asked = 0;
  let failures = 0;
  let notBefore = 0;
  let lastInput = Date.now();

  root.classList.add("jr-js");

  // What was chosen here holds until the preferences say otherwise.
  const preferred = pace.value;
  const [of, chosen] = (localStorage.getItem("jr-pace") || "").split(">");
  if (of === preferred) pace.value = chosen;
  const paused = () => resting || pace.value === "off";

  const textSelected = () => {
    const selection = getSelection();
    return !selection.isCollapsed && $("jr-main").contains(selection.anchorNode);
  };

  const holdsBack = () => {
    const now = Date.now();
    if (!ended && !paused() && now - lastInput > 2 * 3600e3) {
      resting = true;
      alarm("Updates paused after 2 hours.", "Resume", goOn);
      show();
    }
    const busy = textSelected() || document.querySelector("dialog[open]");
    const soon = now < notBefore || now - asked < 1000 * Number(pace.value) - 500;
    return paused() || document.hidden || busy || soon;
  };

  const isPoll = (event) => event.target.id === "jr-poll";

  on("htmx:confirm htmx:before:request", (event) => {
    if (!isPoll(event)) return;
    if (ended || (!forced && holdsBack())) event.preventDefault();
    else asked = Date.now();
    forced = false;
  });

  on("htmx:beforeSwap", (event) => {
    const { xhr, requestConfig } = event.detail;
    if (requestConfig?.elt.id !== "jr-poll") return;
    const header = (name) => xhr.getResponseHeader(name);
    if (!isToBeShown(xhr.status, header)) event.detail.shouldSwap = false;
  });

  on("htmx:before:response", (event) => {
    const { status, headers } = event.detail.ctx.response;
    if (isPoll(event) && !isToBeShown(status, (n) => headers.get(n))) event.preventDefault();
  });

  on("htmx:sendError htmx:timeout htmx:error", (event) => {
    // htmx 2 says the last one besides each of the others.
    if (isPoll(event) && !event.detail.errorInfo) fail(0);
  });

  // A focused button that a change takes away leaves the focus on the state.
  let focused = null;
  on("htmx:afterSettle htmx:after:settle", () => {
    if (focused && !focused.isConnected && $("jr-state")) {
      $("jr-state").focus({ preventScroll: true });
      focused = null;
    }
    show();
  });

  function isToBeShown(status, header) {
    const ours = header("X-Jobrunner-Fragment") === "1";
    if (ours && (status === 200 || status === 204)) {
      focused = document.activeElement;
      succeed(header("X-Jobrunner-As-Of"));
      return true;
    }
    // A login page, an empty 200, a 401: not from us, and no poll mends it.
    if (!ours && status < 500 && status !== 429) end(SIGNED_OUT);
    else if (ours && GONE[status]) end(GONE[status]);
    else fail(Number(header("Retry-After")) || 0);
    return false;
  }

  function succeed(asOf) {
    const [, now, text] = asOf.match(/(\d+) (.*)/);
    offset = now - Date.now();
    $("jr-as-of").textContent = text;
    failures = 0;
    notBefore = 0;
    if (root.classList.contains("jr-stale")) alarm("");
    root.classList.remove("jr-stale");
    show();
  }

  function fail(retryAfter) {
    const wait = BACK_OFF[Math.min(failures, 5)] * (0.8 + 0.4 * Math.random());
    failures += 1;
    notBefore = Date.now() + 1000 * Math.max(wait, Math.min(retryAfter, 300));
    setTimeout(ask, notBefore - Date.now() + 20);
    if (failures === 3) {
      root.classList.add("jr-stale");
      const since = $("jr-as-of").textContent;
      alarm(`Not updated since ${since}: the server does not answer.`, "Retry now", refresh);
    }
    show();
  }

  function end(text) {
    ended = true;
    alarm(text, "Reload", () => location.reload());
    show();
  }

  function ask() {
    if (poller()) htmx.trigger(poller(), "jr:now");
  }

  function refresh() {
    forced = true;
    ask();
  }

  function goOn() {
    resting = false;
    lastInput = Date.now();
    if (!failures) alarm("");
    if (!paused()) refresh();
    show();
  }

  function choose() {
    localStorage.setItem("jr-pace", `${preferred}>${pace.value}`);
    goOn();
  }

  function alarm(text, label, deed) {
    const box = $("jr-alert");
    box.replaceChildren(text);
    if (!label) return;
    const button = document.createElement("button");
    const type = "button";
    Object.assign(button, { type, className: "jr-small-button", textContent: label, onclick: deed });
    box.append(button);
  }

  function show() {
    const box = $("jr-live");
    const over = !poller();
    const seconds = Math.ceil((notBefore - Date.now()) / 1000);
    const [, state, text] = [
      [ended, "ended", "Stopped"],
      [over, "over", "Complete"],
      [paused(), "paused", "Paused"],
      [failures, "late", seconds > 0 ? `Reconnecting in ${seconds} s` : "Reconnecting"],
      [true, "live", "Live"],
    ].find(([isTrue]) => isTrue);
    box.hidden = false;
    box.dataset.state = state;
    $("jr-live-text").textContent = text;
    pace.hidden = over || ended;
  }

  // Durations move with the server's clock, and stand still when the page knows no more.
  const two = (n) => String(n).padStart(2, "0");
  const duration = (s) => {
    const [minute, hour, day] = [60, 3600, 86400].map((unit) => Math.floor(s / unit));
    if (day) return `${day} d ${hour % 24} h`.replace(" 0 h", "");
    if (hour) return `${hour} h ${two(minute % 60)} min`;
    return minute ? `${minute} min ${two(s % 60)} s` : `${s} s`;
  };
  const ago = (s) => `${duration(s).split(" ", 2).join(" ")} ago`;

  function tick() {
    if (failures) show();
    if (document.hidden || paused() || ended || failures > 2) return;
    const now = Date.now() + offset;
    const since = (time) => Math.max(0, Math.floor((now - time) / 1000));
    for (const e of document.querySelectorAll("[data-since]")) {
      e.textContent = duration(since(e.dataset.since));
    }
    for (const e of document.querySelectorAll("[data-ago]")) {
      e.textContent = ago(since(Date.parse(e.closest("time").dateTime)));
    }
  }

  for (const name of ["pointerdown", "keydown", "wheel", "touchstart"]) {
    addEventListener(name, () => (lastInput = Date.now()), { passive: true });
  }
  pace.addEventListener("change", choose);
  on("jr:r", refresh);
  on("jr:p", () => {
    pace.value = paused() ? "auto" : "off";
    choose();
  });
  setInterval(tick, 1000);
  tick();
  show();
})();
