// A file of its own, loaded before the first paint: the page has no inline script, and a dark page must not flash white.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("rolltrace.theme");
  } catch {}
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle("dark", dark);
})();
