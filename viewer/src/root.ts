/** Where the viewer is: "/", or what a proxy has before it, such as "/user/me/proxy/7655/". The server writes the way there
 * into each page, relative to its address, since it does not know what a proxy took off. */

const way = typeof document === "undefined" ? undefined : document.documentElement.dataset.root;

export const ROOT = way === undefined ? "/" : new URL(way, location.href).pathname;

/** An address of ours, which begins with a slash, as the browser must be given it. */
export function fromRoot(href: string): string {
  return ROOT + href.replace(/^\/+/, "");
}

/** The path of the browser as one of ours. */
export function belowRoot(path: string): string {
  return path.startsWith(ROOT) ? `/${path.slice(ROOT.length)}` : path;
}
