// <jr-live>: a piece of a page that keeps itself up to date. The server writes into its attributes
// where it asks and how often; an answer replaces the parts that changed. Without an address it is
// over. Nothing here knows or touches the page's own scripts.
(() => {
  "use strict";
  if (customElements.get("jr-live")) return;

  const BACK_OFF = [2, 4, 8, 16, 30, 60]; // seconds after the first, second, … failure in a row
  const IDLE_LIMIT = 2 * 3600 * 1000;
  const SIGNED_OUT = "You have been signed out. Reload the page to sign in again.";
  const NEAR = 24; // pixels that count as "at the end"
  const ATTRIBUTES = ["jrPoll", "jrSeconds", "jrStatus", "jrNow", "jrSay"];
  const policy = window.trustedTypes
    ? trustedTypes.createPolicy("flask_jobrunner", { createHTML: (text) => text })
    : { createHTML: (text) => text };

  let lastInput = Date.now();

  const parse = (text) => {
    const template = document.createElement("template");
    template.innerHTML = policy.createHTML(text);
    return template.content;
  };

  // A redirect is never ours: it leads to a sign-in page, which may be on another site.
  const ask = (url, more) =>
    fetch(url, {
      headers: { "X-Jobrunner-Widget": "1" },
      cache: "no-store",
      redirect: "manual",
      referrerPolicy: "same-origin",
      signal: AbortSignal.timeout(10000),
      ...more,
    });
  const isOurs = (answer) => answer.headers.get("X-Jobrunner-Fragment") === "1";

  const two = (number) => String(number).padStart(2, "0");
  const duration = (s) =>
    s < 60
      ? `${s} s`
      : s < 3600
        ? `${Math.floor(s / 60)} min ${two(s % 60)} s`
        : s < 86400
          ? `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`
          : `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;

  class Live extends HTMLElement {
    constructor() {
      super();
      this.addEventListener("click", (event) => this.clicked(event));
      this.addEventListener("submit", (event) => this.submitted(event));
    }

    connectedCallback() {
      this.failures = 0;
      this.lastGood = Date.now();
      this.offset = Number(this.dataset.jrNow) - Date.now();
      this.wake = () => this.schedule(0);
      document.addEventListener("visibilitychange", this.wake);
      document.addEventListener("jobrunner:wake", this.wake);
      this.ticking = setInterval(() => this.tick(), 1000);
      this.schedule(this.seconds());
    }

    disconnectedCallback() {
      document.removeEventListener("visibilitychange", this.wake);
      document.removeEventListener("jobrunner:wake", this.wake);
      clearInterval(this.ticking);
      clearTimeout(this.timer);
    }

    $(name) {
      return this.querySelector(`[data-jr-${name}]`);
    }

    seconds() {
      return Number(this.dataset.jrSeconds) || 5;
    }

    schedule(seconds) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.poll(), 1000 * seconds);
    }

    async poll() {
      if (this.busy || !this.isConnected || !this.dataset.jrPoll || document.hidden) return;
      if (Date.now() - lastInput > IDLE_LIMIT) return this.note("Updates paused after 2 hours.");
      const selection = getSelection();
      if (!selection.isCollapsed && this.contains(selection.anchorNode)) return this.schedule(1);
      this.busy = true;
      try {
        await this.take(await ask(this.dataset.jrPoll));
      } catch {
        this.fail(0);
      }
      this.busy = false;
    }

    async take(answer) {
      const ours = isOurs(answer);
      if (ours && answer.ok) {
        if (answer.status === 200) this.show(parse(await answer.text()).querySelector("jr-live"));
        this.failures = 0;
        this.lastGood = Date.now();
        this.note("");
        return this.schedule(this.seconds());
      }
      // A sign-in page, an empty 200, a 401: whatever it is, no further poll mends it.
      if (!ours && answer.status < 500 && answer.status !== 429) {
        return this.end(SIGNED_OUT);
      }
      if (ours && answer.status < 500) return this.end("This can no longer be shown.");
      this.fail(Number(answer.headers.get("Retry-After")) || 0);
    }

    fail(retryAfter) {
      const wait = BACK_OFF[Math.min(this.failures, BACK_OFF.length - 1)];
      this.failures += 1;
      if (this.failures >= 3) {
        const since = new Date(this.lastGood).toLocaleTimeString();
        this.note(`Not updated since ${since}: the server does not answer.`);
      }
      this.schedule(Math.max(wait * (0.8 + 0.4 * Math.random()), Math.min(retryAfter, 300)));
    }

    end(text) {
      delete this.dataset.jrPoll;
      this.note(text);
    }

    note(text) {
      const box = this.$("note");
      if (box.textContent !== text) box.textContent = text;
      box.hidden = !text;
    }

    show(fresh) {
      const before = this.dataset.jrStatus;
      for (const part of fresh.querySelectorAll("[data-jr-part]")) {
        const old = this.querySelector(`[data-jr-part="${part.dataset.jrPart}"]`);
        if (!old || old.isEqualNode(part)) continue;
        const focused = old.contains(document.activeElement);
        old.replaceWith(part);
        if (focused) (part.querySelector("a, button") || this).focus({ preventScroll: true });
      }
      const lines = fresh.querySelector("[data-jr-lines]");
      if (lines && this.$("lines")) this.addLines(lines.children);
      for (const name of ATTRIBUTES) {
        if (name in fresh.dataset) this.dataset[name] = fresh.dataset[name];
        else delete this.dataset[name];
      }
      this.offset = Number(this.dataset.jrNow) - Date.now();
      this.tick();
      if (this.dataset.jrStatus !== before) this.changed(this.dataset.jrStatus);
    }

    addLines(fresh) {
      const log = this.$("lines");
      const box = log.parentElement;
      const height = box.scrollHeight;
      log.append(...fresh);
      while (log.childElementCount > Number(log.dataset.jrLines)) log.firstElementChild.remove();
      // Scrolled up, measured from the end: the line that is read stays where it is.
      if (box.scrollTop < -NEAR) box.scrollTop -= box.scrollHeight - height;
    }

    changed(status) {
      this.$("status-line").textContent = this.dataset.jrSay;
      this.$("done").hidden = status !== "succeeded";
      if (!this.$("ask")) this.close();
      const detail = { status };
      this.dispatchEvent(new CustomEvent("jobrunner:status", { bubbles: true, detail }));
    }

    tick() {
      if (document.hidden || !this.dataset.jrPoll || this.failures > 2) return;
      for (const e of this.querySelectorAll("[data-since]")) {
        const passed = (Date.now() + this.offset - Number(e.dataset.since)) / 1000;
        e.textContent = duration(Math.max(0, Math.floor(passed)));
      }
    }

    async clicked(event) {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      const opener = event.target.closest("[data-jr-ask]");
      const closer = event.target.closest("[data-jr-close]");
      if (opener || closer) event.preventDefault();
      if (closer) return this.close();
      if (!opener) return;
      // The form is fetched when it is wanted, so that its token is never an old one.
      const answer = await ask(opener.href).catch(() => null);
      if (!answer || !answer.ok || !isOurs(answer)) return location.assign(opener.href);
      this.$("question").replaceChildren(parse(await answer.text()));
      this.$("question").querySelector("button").focus();
    }

    async submitted(event) {
      // A form among what the page shows at the end is the page's own.
      if (!event.target.closest("[data-jr-question]")) return;
      event.preventDefault();
      const url = event.target.getAttribute("action");
      const body = new URLSearchParams(new FormData(event.target));
      const answer = await ask(url, { method: "POST", body }).catch(() => null);
      this.close();
      if (!answer) return this.note("The server does not answer. Try again.");
      if ((isOurs(answer) && answer.ok) || answer.status === 409) return this.schedule(0);
      if (answer.type === "opaqueredirect") return this.end(SIGNED_OUT);
      this.note("The job was not cancelled. Reload the page and try again.");
    }

    close() {
      const had = this.$("question").contains(document.activeElement);
      this.$("question").replaceChildren();
      if (had) (this.$("ask") || this).focus({ preventScroll: true });
    }
  }

  for (const name of ["pointerdown", "keydown", "wheel", "touchstart"]) {
    const input = () => {
      const idle = Date.now() - lastInput > IDLE_LIMIT;
      lastInput = Date.now();
      if (idle) document.dispatchEvent(new Event("jobrunner:wake"));
    };
    addEventListener(name, input, { passive: true });
  }
  customElements.define("jr-live", Live);
})();
