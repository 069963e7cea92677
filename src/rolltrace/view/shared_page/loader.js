// The first script of a shared file, put there as it is: the theme before the first paint, then what was packed.
// The script is run as an element of its own, so that the page's policy can name it by its hash.
(async () => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("rolltrace.theme");
  } catch {}
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const page = document.documentElement.classList;
  page.toggle("dark", dark);
  page.add("starting"); // hides what the page shows without scripts
  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  addEventListener("DOMContentLoaded", async () => {
    try {
      globalThis.rolltraceArchive = await unpacked("rolltrace-data");
      const script = document.createElement("script");
      script.textContent = await unpacked("rolltrace-script");
      document.body.append(script);
    } catch (fault) {
      document.getElementById("root").textContent =
        `This page needs a newer browser. 此页面需要较新的浏览器。 (${fault})`;
    }
  });
})();
