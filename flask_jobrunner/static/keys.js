// Single keys, and the dialog that lists them and turns them off.
(() => {
  "use strict";

  const $ = (id) => document.getElementById(id);
  const PRESSED = {
    "?": "#jr-keys-open",
    "/": "[type=search]",
    gj: ".jr-brand",
    gt: "#jr-to-types",
    gw: "#jr-to-supervisors",
    f: "#jr-follow",
    t: "#jr-times",
    w: "#jr-wrap",
  };
  const on = $("jr-keys-on");
  let last = "";
  let since = 0;

  on.checked = localStorage.getItem("jr-keys") !== "off";
  on.addEventListener("change", () => localStorage.setItem("jr-keys", on.checked ? "on" : "off"));
  $("jr-keys-open").hidden = false;
  $("jr-keys-open").addEventListener("click", () => $("jr-keys").showModal());

  document.addEventListener("keydown", (event) => {
    const typed = event.target.closest("input, select, textarea, dialog, [contenteditable]");
    if (!on.checked || typed || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = last === "g" && event.timeStamp - since < 1500 ? `g${event.key}` : event.key;
    [last, since] = [key, event.timeStamp];
    document.dispatchEvent(new Event(`jr:${key}`));
    const pressed = PRESSED[key] && document.querySelector(PRESSED[key]);
    if (!pressed || pressed.hidden) return;
    event.preventDefault();
    if (pressed.type === "search") pressed.focus();
    else pressed.click();
  });
})();
