/** Of several stores, the one that a page shows: its name stands first in the address, `/s/NAME`. With one store there is none. */
import { belowRoot } from "./root";

export function baseOf(path: string): string {
  return /^\/s\/[^/]+/.exec(path)?.[0] ?? "";
}

export function currentBase(): string {
  return typeof location === "undefined" ? "" : baseOf(belowRoot(location.pathname));
}

export function baseOfStore(store: string | null): string {
  return store === null ? "" : `/s/${encodeURIComponent(store)}`;
}

/** The name that a base holds; empty if it holds none. */
export function storeOf(base: string): string {
  try {
    return decodeURIComponent(base.slice("/s/".length));
  } catch {
    return base;
  }
}
