// The log of a job's page: following its end, earlier lines, and no more lines than a page can hold.
(() => {
  "use strict";

  const LINES_KEPT = 10000;
  const NEAR = 24; // pixels that count as "at the end"
  const ANNOUNCE_EVERY = 15000;
  const $ = (id) => document.getElementById(id);

  const log = $("jr-log");
  const followButton = $("jr-follow");
  const pill = $("jr-pill");
  if (!log || !followButton) return;

  const tailing = log.hasAttribute("data-tail");
  let follow = tailing && !location.hash;
  let top = 0;
  let unseen = 0;
  let missing = false; // newer lines were not kept, for a reader of older ones

  const linesIn = (part) => part.querySelectorAll("p[id^=L]").length;
  const count = () => linesIn(log);
  const firstLine = () => log.querySelector("p[id^=L]");
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight <= NEAR;

  const toEnd = (frames = 6) => {
    log.scrollTop = log.scrollHeight;
    top = log.scrollTop;
    // Chunks that come into view take their real height only then, some frames later.
    if (frames) requestAnimationFrame(() => toEnd(frames - 1));
  };

  const setFollow = (on) => {
    if (on && missing) return location.assign(location.pathname);
    follow = on;
    followButton.setAttribute("aria-pressed", String(on));
    if (!on) return;
    unseen = 0;
    pill.hidden = true;
    toEnd();
  };

  const showEarlier = () => {
    const first = firstLine();
    let row = $("jr-earlier");
    if (!first || first.id === "L1") return row && row.remove();
    if (!row) {
      row = document.createElement("p");
      row.id = "jr-earlier";
      row.className = "jr-cut";
      row.append(document.createElement("a"));
      log.prepend(row);
    }
    const link = row.firstElementChild;
    const page = $("jr-count").querySelector("a").getAttribute("href");
    link.href = `${page}?before=${first.id.slice(1)}`;
    link.textContent =
      count() + 500 > LINES_KEPT ? "Earlier lines are on the full page" : "Earlier lines";
  };

  // Lines that are shown stay next to each other: behind a gap nothing is added.
  const markMissing = () => {
    let row = $("jr-later");
    if (!row) {
      row = document.createElement("p");
      row.id = "jr-later";
      row.className = "jr-cut";
      const link = document.createElement("a");
      link.href = location.pathname;
      link.textContent = "Newer lines are not kept on this page. Go to the end";
      row.append(link);
      [...log.querySelectorAll(".jr-chunk")].pop().after(row);
    }
    while (row.nextElementSibling) row.nextElementSibling.remove();
  };

  const dropOld = () => {
    if (missing) return markMissing();
    let lines = count();
    if (lines <= LINES_KEPT) return;
    const chunks = [...log.querySelectorAll(".jr-chunk")];
    while (lines > LINES_KEPT && chunks.length > 1) {
      // Whoever reads older lines keeps them: then the newest give way.
      const chunk = follow ? chunks.shift() : chunks.pop();
      missing ||= !follow;
      lines -= linesIn(chunk);
      chunk.remove();
    }
    if (missing) return markMissing();
    // What was said of lines left out there goes with them.
    for (let row = chunks[0].previousElementSibling; row && !row.id; ) {
      row.remove();
      row = chunks[0].previousElementSibling;
    }
    showEarlier();
  };

  const prepend = async (link) => {
    const before = firstLine();
    const answer = await fetch(`${link.dataset.lines}?before=${before.id.slice(1)}`, {
      headers: { "HX-Request": "true" },
    });
    if (!answer.ok || answer.headers.get("X-Jobrunner-Fragment") !== "1") throw new Error();
    const lines = await answer.text();
    if (!lines.includes("<p id=")) return link.parentElement.remove();
    const place = before.getBoundingClientRect().top;
    observer.disconnect();
    // The browser's own anchoring would move the lines a second time.
    log.style.overflowAnchor = "none";
    link.parentElement.insertAdjacentHTML("afterend", lines);
    showEarlier();
    for (let frame = 0; frame < 3; frame += 1) {
      log.scrollTop += before.getBoundingClientRect().top - place;
      await new Promise(requestAnimationFrame);
    }
    top = log.scrollTop;
    log.style.overflowAnchor = "";
    observer.observe(log, { childList: true });
  };

  log.addEventListener("click", async (event) => {
    const link = event.target.closest("#jr-earlier > a[data-lines]");
    const modified = event.ctrlKey || event.metaKey || event.shiftKey;
    if (!link || modified || count() + 500 > LINES_KEPT) return;
    event.preventDefault();
    if (link.ariaBusy) return;
    link.ariaBusy = "true";
    setFollow(false);
    await prepend(link).catch(() => location.assign(link.href));
    link.ariaBusy = null;
  });

  let said = 0;
  let unsaid = 0;
  const announce = (lines) => {
    unsaid += lines;
    if ($("jr-announce").ariaPressed !== "true" || Date.now() - said < ANNOUNCE_EVERY) return;
    const texts = log.querySelectorAll("p[id^=L] > span");
    const last = texts[texts.length - 1].textContent.slice(0, 200);
    $("jr-say").textContent = `${unsaid} new line${unsaid === 1 ? "" : "s"}, last: ${last}`;
    said = Date.now();
    unsaid = 0;
  };

  const observer = new MutationObserver((changes) => {
    let lines = 0;
    for (const change of changes) {
      for (const node of change.addedNodes) {
        if (node.classList && node.classList.contains("jr-chunk")) lines += linesIn(node);
      }
    }
    if (!lines) return follow && toEnd();
    announce(lines);
    dropOld();
    if (follow) return toEnd();
    unseen += lines;
    pill.textContent = `${unseen.toLocaleString("en")} new line${unseen === 1 ? "" : "s"}`;
    pill.hidden = false;
  });

  log.addEventListener("scroll", () => {
    if (log.scrollTop < top - NEAR && !atEnd()) setFollow(false);
    else if (!follow && tailing && !missing && atEnd()) setFollow(true);
    top = log.scrollTop;
  });
  log.addEventListener("jr:picked", () => setFollow(false));

  observer.observe(log, { childList: true });
  followButton.hidden = $("jr-announce").hidden = !tailing;
  followButton.addEventListener("click", () => setFollow(!follow));
  $("jr-announce").addEventListener("click", (event) => {
    event.currentTarget.ariaPressed = String(event.currentTarget.ariaPressed !== "true");
  });
  $("jr-end").hidden = false;
  $("jr-end").addEventListener("click", () => (tailing ? setFollow(true) : toEnd()));
  pill.addEventListener("click", () => setFollow(true));
  setFollow(follow);
  if (!location.hash) toEnd();
})();
