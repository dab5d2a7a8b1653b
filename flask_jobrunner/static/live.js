// The gate before every poll, and what the page says about its own freshness.
// htmx asks at the interval that the server wrote into #jr-poll; this script may only hold it back.
(() => {
  "use strict";

  const BACK_OFF = [2, 4, 8, 16, 30, 60]; // seconds after the first, second, … failure in a row
  const IDLE_LIMIT = 2 * 3600 * 1000;
  const SIGNED_OUT = "You have been signed out. Reload to sign in again.";
  const GONE = {
    400: "This page is out of date. Reload it.",
    403: "You may no longer see this.",
    404: "This job was deleted.",
  };

  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const poller = () => document.querySelector("#jr-poll[hx-get]");
  const clock = { offset: Number(root.dataset.now) - Date.now() };

  const kept = sessionStorage.getItem("jr-paused");
  let paused = kept ? kept === "1" : "paused" in root.dataset;
  let ended = false;
  let failures = 0;
  let notBefore = 0;
  let lastInput = Date.now();
  let lastGood = Date.now();

  root.classList.add("jr-js");

  const textSelected = () => {
    const selection = getSelection();
    return !selection.isCollapsed && $("jr-main").contains(selection.anchorNode);
  };

  const holdsBack = () => {
    if (!ended && !paused && Date.now() - lastInput > IDLE_LIMIT) {
      pause(true);
      alarm("Updates paused after 2 hours.", "Resume", () => pause(false));
    }
    return ended || paused || document.hidden || Date.now() < notBefore || textSelected();
  };

  const isPoll = (event) => event.target.id === "jr-poll";
  // The names of htmx 2, and those of htmx 4, which may take its place.
  const on = (names, deed) => names.forEach((name) => document.addEventListener(name, deed));

  on(["htmx:confirm", "htmx:before:request"], (event) => {
    if (isPoll(event) && holdsBack()) event.preventDefault();
  });

  on(["htmx:beforeSwap"], (event) => {
    const { xhr, requestConfig } = event.detail;
    if (!requestConfig || requestConfig.elt.id !== "jr-poll") return;
    const header = (name) => xhr.getResponseHeader(name);
    if (!isToBeShown(xhr.status, header)) event.detail.shouldSwap = false;
  });

  on(["htmx:before:response"], (event) => {
    const { status, headers } = event.detail.ctx.response;
    if (isPoll(event) && !isToBeShown(status, (n) => headers.get(n))) event.preventDefault();
  });

  on(["htmx:sendError", "htmx:timeout", "htmx:error"], (event) => {
    // htmx 2 says the last one besides each of the others.
    if (isPoll(event) && !event.detail.errorInfo) fail(0);
  });

  // A focused button that a change of state takes away leaves the focus on that state.
  let focused = null;
  on(["htmx:afterSettle", "htmx:after:settle"], () => {
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
      succeed();
      return true;
    }
    // A login page, an empty 200, a 401: whatever it is, it is not from us, and no poll mends it.
    if (!ours && status < 500 && status !== 429) end(SIGNED_OUT);
    else if (ours && GONE[status]) end(GONE[status]);
    else fail(Number(header("Retry-After")) || 0);
    return false;
  }

  function succeed() {
    failures = 0;
    notBefore = 0;
    lastGood = Date.now();
    if (root.classList.contains("jr-stale")) alarm("");
    root.classList.remove("jr-stale");
    show();
  }

  function fail(retryAfter) {
    const wait = BACK_OFF[Math.min(failures, BACK_OFF.length - 1)] * (0.8 + 0.4 * Math.random());
    failures += 1;
    notBefore = Date.now() + 1000 * Math.max(wait, Math.min(retryAfter, 300));
    setTimeout(ask, notBefore - Date.now() + 20);
    if (failures === 3) {
      root.classList.add("jr-stale");
      const since = new Date(lastGood).toLocaleTimeString();
      alarm(`Not updated since ${since}: the server does not answer.`, "Retry now", () => {
        notBefore = 0;
        ask();
      });
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

  function pause(on) {
    paused = on;
    lastInput = Date.now();
    sessionStorage.setItem("jr-paused", on ? "1" : "0");
    if (!on) {
      alarm("");
      ask();
    }
    show();
  }

  function alarm(text, label, deed) {
    const box = $("jr-alert");
    box.replaceChildren(text);
    if (!label) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "jr-small-button";
    button.textContent = label;
    button.addEventListener("click", deed);
    box.append(button);
  }

  function show() {
    const box = $("jr-live");
    if (!box) return;
    const over = !poller();
    const seconds = Math.ceil((notBefore - Date.now()) / 1000);
    const [state, text] = ended
      ? ["ended", "Stopped"]
      : over
        ? ["over", "Complete"]
        : paused
          ? ["paused", "Paused"]
          : failures
            ? ["late", seconds > 0 ? `Reconnecting in ${seconds} s` : "Reconnecting"]
            : ["live", "Live"];
    box.hidden = false;
    box.dataset.state = state;
    $("jr-live-text").textContent = text;
    $("jr-pause").textContent = paused ? "Resume" : "Pause";
    $("jr-pause").hidden = over || ended;
  }

  // Running durations and "3 min ago" move with the server's clock, and stand still when the page
  // does not know any more.
  const two = (number) => String(number).padStart(2, "0");
  const duration = (s) =>
    s < 60
      ? `${s} s`
      : s < 3600
        ? `${Math.floor(s / 60)} min ${two(s % 60)} s`
        : s < 86400
          ? `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`
          : `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  const ago = (s) =>
    s < 60
      ? `${s} s ago`
      : s < 3600
        ? `${Math.floor(s / 60)} min ago`
        : s < 86400
          ? `${Math.floor(s / 3600)} h ago`
          : `${Math.floor(s / 86400)} d ago`;

  function tick() {
    if (failures) show();
    if (document.hidden || paused || ended || failures > 2) return;
    const now = Date.now() + clock.offset;
    const since = (time) => Math.max(0, Math.floor((now - Number(time)) / 1000));
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
  if ($("jr-pause")) $("jr-pause").addEventListener("click", () => pause(!paused));
  setInterval(tick, 1000);
  tick();
  show();
})();
