/** What an environment step said before it was amended. */

export interface EarlierValue {
  /** What it was; null if nothing was given. */
  readonly value: unknown;
  /** When it was replaced, nanoseconds since 1970. */
  readonly until_ns: number;
}

interface Amended {
  readonly earlier: readonly { readonly time_ns: number; readonly values: Readonly<Record<string, unknown>> }[];
  readonly fields: Readonly<Record<string, unknown>>;
  readonly reward?: unknown;
  readonly episode_done?: unknown;
  readonly stop_reason?: unknown;
}

/** Values of each field that were replaced, the newest first. Of objects only the keys that were changed. */
export function earlierValues(step: Amended): Map<string, EarlierValue[]> {
  const values = new Map<string, EarlierValue[]>();
  const next = new Map<string, unknown>(Object.entries(step.fields));
  for (const name of ["reward", "episode_done", "stop_reason"] as const) next.set(name, step[name] ?? null);
  for (const { time_ns, values: replaced } of [...step.earlier].reverse()) {
    for (const [name, was] of Object.entries(replaced)) {
      const value = onlyChanged(was, next.get(name));
      values.set(name, [...(values.get(name) ?? []), { value, until_ns: time_ns }]);
      next.set(name, was);
    }
  }
  return values;
}

function onlyChanged(was: unknown, became: unknown): unknown {
  if (!isObject(was) || !isObject(became)) return was;
  const names = [...new Set([...Object.keys(was), ...Object.keys(became)])];
  const changed = names.filter((name) => JSON.stringify(was[name]) !== JSON.stringify(became[name]));
  return Object.fromEntries(changed.map((name) => [name, was[name] ?? null]));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
