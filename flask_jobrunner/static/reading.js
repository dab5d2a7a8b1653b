// Lines of a log: their times, wrapping, copying, marking.
(() => {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const log = $("jr-log");
  document.documentElement.classList.add("jr-js");

  const remembered = (name) => localStorage.getItem(name);

  if (log && $("jr-wrap")) {
    const wrap = $("jr-wrap");
    const setWrap = (on) => {
      log.dataset.wrap = on ? "on" : "off";
      wrap.setAttribute("aria-pressed", String(on));
      localStorage.setItem("jr-wrap", on ? "1" : "0");
    };
    wrap.hidden = false;
    wrap.addEventListener("click", () => setWrap(log.dataset.wrap === "off"));
    const kept = remembered("jr-wrap");
    setWrap(kept ? kept === "1" : document.documentElement.dataset.wrap !== "off");

    const TIMES = { time: "Time", offset: "Time since start", off: "No time" };
    const names = Object.keys(TIMES);
    const setTimes = (name) => {
      log.dataset.times = name in TIMES ? name : "time";
      $("jr-times").textContent = TIMES[log.dataset.times];
      localStorage.setItem("jr-times", log.dataset.times);
    };
    $("jr-times").hidden = false;
    const nextTimes = () =>
      setTimes(names[(names.indexOf(log.dataset.times) + 1) % names.length]);
    $("jr-times").addEventListener("click", nextTimes);
    setTimes(remembered("jr-times"));
  }

  // #L10 and #L10-L20, also for lines that a poll brings later.
  const picked = () => {
    const [, first, last] = location.hash.match(/^#L(\d+)(?:-L(\d+))?$/) || [];
    return first ? [Number(first), Number(last || first)].sort((a, b) => a - b) : null;
  };
  const mark = (scroll) => {
    for (const line of log.querySelectorAll(".jr-picked")) line.classList.remove("jr-picked");
    const range = picked();
    if (!range) return;
    for (const line of log.querySelectorAll("p[id^=L]")) {
      const number = Number(line.id.slice(1));
      if (number >= range[0] && number <= range[1]) line.classList.add("jr-picked");
    }
    if (scroll && $(`L${range[0]}`)) $(`L${range[0]}`).scrollIntoView({ block: "center" });
  };

  if (log) {
    log.addEventListener("click", (event) => {
      const link = event.target.closest("p[id^=L] > a");
      const modified = event.ctrlKey || event.metaKey || event.altKey;
      // Among filtered lines the link leads to the line with its neighbours.
      if (!link || modified || log.hasAttribute("data-filtered")) return;
      event.preventDefault();
      const number = link.textContent;
      const from = event.shiftKey && picked();
      const ends = from ? [from[0], Number(number)].sort((a, b) => a - b) : [number];
      getSelection().removeAllRanges();
      history.replaceState(null, "", `?line=${ends[0]}#L${ends.join("-L")}`);
      mark(false);
      log.dispatchEvent(new Event("jr:picked"));
    });
    addEventListener("hashchange", () => mark(true));
    mark(location.hash.includes("-"));
  }

  const textOf = (element) => {
    if (element.id !== "jr-log") return element.textContent;
    const some = element.querySelector(".jr-picked") ? "p.jr-picked > span" : "p[id^=L] > span";
    return [...element.querySelectorAll(some)].map((e) => e.textContent).join("\n");
  };

  const copy = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Pages on plain http have no clipboard object.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const label = button.textContent;
    let told = "Copied";
    try {
      await copy(textOf($(button.dataset.copy)));
    } catch {
      told = "Not copied";
    }
    button.textContent = told;
    $("jr-say").textContent = told;
    setTimeout(() => (button.textContent = label), 1500);
  });

  // What was done is told once, not again after a reload.
  if ($("jr-did")) history.replaceState(null, "", location.pathname + location.hash);
})();
