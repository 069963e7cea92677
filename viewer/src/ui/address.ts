/** The address is the state: it is read here and changed with `navigate`; pages follow it with `useUrl`. */
import { belowRoot, fromRoot } from "../root";

export interface Url {
  readonly href: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** What stands after `#`, as `name=value` pairs: anchors inside a page. */
  readonly anchor: URLSearchParams;
}

type Changes = Record<string, string | null>;

/** Browsers refuse addresses that change too often, as they do while a key is held down. */
const REPLACE_AFTER_MS = 120;

let current = parse(typeof location === "undefined" ? "/" : shown());
let replacing: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

/** What the browser shows, as an address of ours. */
function shown(): string {
  return belowRoot(location.pathname) + location.search + location.hash;
}

function parse(href: string): Url {
  const { pathname, search, hash } = new URL(href, "http://localhost");
  return {
    href: pathname + search + hash,
    path: pathname,
    query: new URLSearchParams(search),
    anchor: new URLSearchParams(hash.slice(1)),
  };
}

function adopt(url: Url): void {
  current = url;
  for (const listener of listeners) listener();
}

function settle(): void {
  if (replacing === undefined) return;
  clearTimeout(replacing);
  replacing = undefined;
  history.replaceState(null, "", fromRoot(current.href));
}

if (typeof window !== "undefined") {
  const follow = () => {
    clearTimeout(replacing);
    replacing = undefined;
    adopt(parse(shown()));
  };
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);
  window.addEventListener("pagehide", settle);
}

export function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function currentUrl(): Url {
  return current;
}

export function navigate(href: string, { replace = false }: { replace?: boolean } = {}): void {
  const url = parse(href);
  if (url.href === current.href) return;
  if (replace) {
    adopt(url);
    clearTimeout(replacing);
    replacing = setTimeout(settle, REPLACE_AFTER_MS);
  } else {
    settle();
    history.pushState(null, "", fromRoot(url.href));
    adopt(url);
  }
}

/** The current address with some arguments set, or removed where the value is null. */
export function hrefWith(changes: Changes, anchor: Changes = {}): string {
  const query = changed(current.query, changes);
  const hash = changed(current.anchor, anchor);
  return current.path + (query ? `?${query}` : "") + (hash ? `#${hash}` : "");
}

function changed(params: URLSearchParams, changes: Changes): string {
  const copy = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") copy.delete(name);
    else copy.set(name, value);
  }
  return copy.toString();
}

export function setQuery(changes: Changes, options?: { replace?: boolean }): void {
  navigate(hrefWith(changes), options);
}

export function setAnchor(changes: Changes): void {
  navigate(hrefWith({}, changes), { replace: true });
}
