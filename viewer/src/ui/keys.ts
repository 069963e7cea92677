/** Keys of the page. What is registered now is also what the list of keys shows. */
import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Binding {
  /** `j`, `?`, `mod+k` (Ctrl or Cmd), or two keys one after the other: `g l`. */
  readonly keys: string;
  readonly label: string;
  readonly run: (event: KeyboardEvent) => void;
}

const SEQUENCE_MS = 1200;
let layers: readonly (readonly Binding[])[] = [];
const listeners = new Set<() => void>();
let pending: { key: string; until: number } | null = null;

function publish(next: typeof layers): void {
  layers = next;
  for (const listener of listeners) listener();
}

export function useKeys(bindings: readonly Binding[]): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  const shape = bindings.map((binding) => `${binding.keys}\t${binding.label}`).join("\n");
  // biome-ignore lint/correctness/useExhaustiveDependencies: what the keys do may change at each render; which keys there are does not
  useEffect(() => {
    const layer = latest.current.map((binding, index) => ({
      ...binding,
      run: (event: KeyboardEvent) => latest.current[index]?.run(event),
    }));
    publish([...layers, layer]);
    return () => publish(layers.filter((other) => other !== layer));
  }, [shape]);
}

export function useActiveBindings(): readonly (readonly Binding[])[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => layers,
  );
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && ["checkbox", "radio"].includes(target.type)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

function pressed(event: KeyboardEvent): string {
  return event.ctrlKey || event.metaKey ? `mod+${event.key.toLowerCase()}` : event.key;
}

export function handleKey(event: KeyboardEvent): void {
  const key = pressed(event);
  if (event.altKey || event.isComposing || event.defaultPrevented) return;
  if (!key.startsWith("mod+") && isTyping(event.target)) return;
  if (document.querySelector("[role=dialog]:not([hidden]), [role=menu]:not([hidden])")) return;
  const sequence = pending && performance.now() < pending.until ? `${pending.key} ${key}` : null;
  pending = null;
  // The innermost page comes last and wins.
  const all = layers.flat().reverse();
  const binding = all.find((each) => each.keys === sequence) ?? all.find((each) => each.keys === key);
  if (binding) {
    event.preventDefault();
    binding.run(event);
  } else if (all.some((each) => each.keys.startsWith(`${key} `))) {
    pending = { key, until: performance.now() + SEQUENCE_MS };
  }
}
