// The log panel: following its end, wrapping, copying. Lines come in chunks, one for each poll.
(() => {
  "use strict";

  const LINES_KEPT = 10000;
  const NEAR = 24; // pixels that count as "at the end"
  const $ = (id) => document.getElementById(id);

  const log = $("jr-log");
  const followButton = $("jr-follow");
  const wrapButton = $("jr-wrap");
  const pill = $("jr-pill");

  if (log && followButton) {
    const tailing = log.hasAttribute("data-tail");
    let follow = tailing && !location.hash;
    let top = 0;
    let unseen = 0;

    const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight <= NEAR;

    const toEnd = (frames = 6) => {
      log.scrollTop = log.scrollHeight;
      top = log.scrollTop;
      // Chunks that come into view take their real height only then, some frames later.
      if (frames) requestAnimationFrame(() => toEnd(frames - 1));
    };

    const setFollow = (on) => {
      follow = on;
      followButton.setAttribute("aria-pressed", String(on));
      if (!on) return;
      unseen = 0;
      pill.hidden = true;
      toEnd();
    };

    const dropOld = () => {
      let lines = log.querySelectorAll("p[id^=L]").length;
      for (const chunk of log.querySelectorAll(".jr-chunk")) {
        if (lines <= LINES_KEPT) break;
        lines -= chunk.childElementCount;
        chunk.remove();
        if (log.querySelector(".jr-cut")) continue;
        const marker = document.createElement("p");
        marker.className = "jr-cut";
        marker.textContent = "Earlier lines are on the full page";
        log.prepend(marker);
      }
    };

    log.addEventListener("scroll", () => {
      if (log.scrollTop < top - NEAR && !atEnd()) setFollow(false);
      else if (!follow && tailing && atEnd()) setFollow(true);
      top = log.scrollTop;
    });

    new MutationObserver((changes) => {
      let lines = 0;
      for (const change of changes) {
        for (const node of change.addedNodes) {
          if (node.classList && node.classList.contains("jr-chunk")) lines += node.childElementCount;
        }
      }
      if (!lines) return;
      dropOld();
      if (follow) return toEnd();
      unseen += lines;
      pill.textContent = `${unseen.toLocaleString("en")} new line${unseen === 1 ? "" : "s"}`;
      pill.hidden = false;
    }).observe(log, { childList: true });

    followButton.hidden = !tailing;
    followButton.addEventListener("click", () => setFollow(!follow));
    pill.addEventListener("click", () => setFollow(true));
    setFollow(follow);
    if (!location.hash) toEnd();
  }

  if (log && wrapButton) {
    const setWrap = (on) => {
      log.dataset.wrap = on ? "on" : "off";
      wrapButton.setAttribute("aria-pressed", String(on));
      localStorage.setItem("jr-wrap", on ? "1" : "0");
    };
    wrapButton.hidden = false;
    wrapButton.addEventListener("click", () => setWrap(log.dataset.wrap === "off"));
    const kept = localStorage.getItem("jr-wrap");
    setWrap(kept ? kept === "1" : document.documentElement.dataset.wrap !== "off");
  }

  const textOf = (element) =>
    element.id === "jr-log"
      ? [...element.querySelectorAll("p > span")].map((e) => e.textContent).join("\n")
      : element.textContent;

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
