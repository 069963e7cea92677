/** Where the address is kept: in the browser's own. In a shared file it is replaced by `shared/place.ts`. */
import { belowRoot, fromRoot } from "../root";

export function readPlace(): string {
  return typeof location === "undefined" ? "/" : belowRoot(location.pathname) + location.search + location.hash;
}

export function writePlace(href: string, { replace }: { replace: boolean }): void {
  if (replace) history.replaceState(null, "", fromRoot(href));
  else history.pushState(null, "", fromRoot(href));
}

/** Whether there is such a page. */
export function isThere(_href: string): boolean {
  return true;
}
