/** The address is the state: it is read here and changed with `navigate`; pages follow it with `useUrl`. */
import { baseOf } from "../base";
import { isThere, readPlace, writePlace } from "./place";

export interface Url {
  readonly href: string;
  /** Of several stores, the one that is shown: `/s/NAME`, which stands before the path; empty with one store. */
  readonly base: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** What stands after `#`, as `name=value` pairs: anchors inside a page. */
  readonly anchor: URLSearchParams;
}

type Changes = Record<string, string | null>;

/** Browsers refuse addresses that change too often, as they do while a key is held down. */
const REPLACE_AFTER_MS = 120;

let current = parse(readPlace());
let replacing: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();

function parse(href: string): Url {
  const { pathname, search, hash } = new URL(href, "http://localhost");
  const base = baseOf(pathname);
  return {
    href: pathname + search + hash,
    base,
    path: pathname.slice(base.length) || "/",
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
  writePlace(current.href, { replace: true });
}

if (typeof window !== "undefined") {
  const follow = () => {
    clearTimeout(replacing);
    replacing = undefined;
    adopt(parse(readPlace()));
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

/** Links inside a store's pages stay there, except those to the front page; one that names a store goes there. */
export function within(href: string): string {
  const isFront = /^\/(?:[?#]|$)/.test(href);
  return isFront || baseOf(href) ? href : current.base + href;
}

export function navigate(href: string, { replace = false }: { replace?: boolean } = {}): void {
  const url = parse(within(href));
  if (url.href === current.href || !isThere(href)) return;
  if (replace) {
    adopt(url);
    clearTimeout(replacing);
    replacing = setTimeout(settle, REPLACE_AFTER_MS);
  } else {
    settle();
    writePlace(url.href, { replace: false });
    adopt(url);
  }
}

/** The current address with some arguments set, or removed where the value is null. */
export function hrefWith(changes: Changes, anchor: Changes = {}): string {
  const query = changed(current.query, changes);
  const hash = changed(current.anchor, anchor);
  return current.base + current.path + (query ? `?${query}` : "") + (hash ? `#${hash}` : "");
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
