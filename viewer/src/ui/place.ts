/** Where the address is kept: in the browser's own. In a shared file it is replaced by `shared/place.ts`. */

export function readPlace(): string {
  return typeof location === "undefined" ? "/" : location.pathname + location.search + location.hash;
}

export function writePlace(href: string, { replace }: { replace: boolean }): void {
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
}

/** Whether there is such a page. */
export function isThere(_href: string): boolean {
  return true;
}
