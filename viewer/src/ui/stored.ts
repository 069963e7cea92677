/** A choice that this browser remembers. Works without storage too: then until the page is closed. */
import { useCallback, useSyncExternalStore } from "react";

const memory = new Map<string, string | null>();
const listeners = new Set<() => void>();

function load(name: string): string | null {
  if (!memory.has(name)) {
    let value: string | null = null;
    try {
      value = localStorage.getItem(`rolltrace.${name}`);
    } catch {
      // storage may be switched off
    }
    memory.set(name, value);
  }
  return memory.get(name) ?? null;
}

export function store(name: string, value: string | null): void {
  memory.set(name, value);
  try {
    if (value === null) localStorage.removeItem(`rolltrace.${name}`);
    else localStorage.setItem(`rolltrace.${name}`, value);
  } catch {
    // storage may be switched off or full
  }
  for (const listener of listeners) listener();
}

export function useStored(name: string): [string | null, (value: string | null) => void] {
  const value = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => load(name),
  );
  return [value, useCallback((next) => store(name, next), [name])];
}
