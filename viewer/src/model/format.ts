/** Numbers as people read them: grouped, with their unit, never wider than they need to be. */

/** What stands where there is no value. */
export const MISSING = "–";
const MINUS = "−";
/** Between a number and its unit: never broken over two lines. */
const GAP = "\u00a0";

type Maybe = number | null | undefined;

/** Counts: `12,034`. */
export function count(value: Maybe): string {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return special(value);
  return signed(Math.round(value).toLocaleString("en-US"));
}

/** Counts where there is little room: `812`, `2.1k`, `30k`, `1.2M`. */
export function short(value: Maybe): string {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return special(value);
  const size = Math.abs(value);
  if (size < 1000) return signed(Number.isInteger(value) ? String(value) : value.toFixed(size < 10 ? 1 : 0));
  const [unit, divisor] = size < 999_500 ? ["k", 1e3] : size < 999_500_000 ? ["M", 1e6] : (["G", 1e9] as const);
  const scaled = value / divisor;
  return signed(Math.abs(scaled) < 9.95 ? trim(scaled.toFixed(1)) : scaled.toFixed(0)) + unit;
}

/** Rewards, scores and other measures: two digits after the point, more where they would all be lost. */
export function measure(value: Maybe, digits = 2): string {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return special(value);
  const size = Math.abs(value);
  if (size >= 100_000) return signed(value.toPrecision(3));
  if (size > 0 && size < 0.5 * 10 ** -digits) return signed(String(Number(value.toPrecision(1))));
  if (size >= 1000) return signed(Math.round(value).toLocaleString("en-US"));
  return signed(value.toFixed(size >= 100 ? Math.min(1, digits) : digits));
}

/** A change: always with its sign. */
export function change(value: Maybe, digits = 2): string {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return special(value);
  return value > 0 ? `+${measure(value, digits)}` : measure(value, digits);
}

export function percent(share: Maybe): string {
  if (share === null || share === undefined) return MISSING;
  if (!Number.isFinite(share)) return special(share);
  const value = share * 100;
  const digits = value > 0 && value < 1 ? 1 : 0;
  return `${signed(value.toFixed(digits))}${GAP}%`;
}

/** Time spans, from microseconds to days. */
export function seconds(value: Maybe): string {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return special(value);
  if (value < 0) return `${MINUS}${seconds(-value)}`;
  if (value === 0) return `0${GAP}s`;
  if (value < 0.001) return `${Math.max(1, Math.round(value * 1e6))}${GAP}µs`;
  if (value < 0.9995) return `${trim((value * 1e3).toFixed(value < 0.01 ? 1 : 0))}${GAP}ms`;
  if (value < 99.95) return `${value.toFixed(1)}${GAP}s`;
  if (value < 3600) return `${Math.floor(value / 60)}${GAP}min${GAP}${Math.floor(value % 60)}${GAP}s`;
  if (value < 172_800) return `${Math.floor(value / 3600)}${GAP}h${GAP}${Math.floor((value % 3600) / 60)}${GAP}min`;
  return `${Math.floor(value / 86_400)}${GAP}d${GAP}${Math.floor((value % 86_400) / 3600)}${GAP}h`;
}

export function nanoseconds(value: Maybe): string {
  return seconds(value === null || value === undefined ? value : value / 1e9);
}

export function bytes(value: Maybe): string {
  if (value === null || value === undefined) return MISSING;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let scaled = value;
  let unit = 0;
  while (scaled >= 999.5 && unit < units.length - 1) {
    scaled /= 1000;
    unit += 1;
  }
  return `${unit > 0 && scaled < 9.95 ? scaled.toFixed(1) : scaled.toFixed(0)}${GAP}${units[unit]}`;
}

/** A number on an axis: no digit more than it needs. */
export function tick(value: number): string {
  const size = Math.abs(value);
  return size >= 10_000 ? short(value) : signed(String(Number(value.toPrecision(4))));
}

/** A time span on an axis, in one unit. */
export function tickSeconds(value: number): string {
  if (value >= 7200) return `${Number((value / 3600).toPrecision(2))}${GAP}h`;
  if (value >= 600) return `${Number((value / 60).toPrecision(2))}${GAP}min`;
  return value > 0 && value < 1 ? `${tick(value * 1000)}${GAP}ms` : `${tick(value)}${GAP}s`;
}

/** A time span in one unit, where only its size matters. */
export function coarse(value: number): string {
  const units = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ] as const;
  const unit = units.find(([size]) => value >= size);
  return unit ? `${Math.floor(value / unit[0])}${GAP}${unit[1]}` : `${Math.floor(value)}${GAP}s`;
}

/** The time of day, with the date where it is another day than `now`, and the year where it is another. Local time: the reader's. */
export function clock(ns: Maybe, nowNs: number = Date.now() * 1e6): string {
  if (ns === null || ns === undefined) return MISSING;
  const date = new Date(ns / 1e6);
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  const now = new Date(nowNs / 1e6);
  if (date.toDateString() === now.toDateString()) return time;
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.getFullYear() === now.getFullYear() ? `${day} ${time}` : `${date.getFullYear()}-${day} ${time}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

function special(value: number): string {
  return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : `${MINUS}∞`;
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function signed(text: string): string {
  return text.replace(/^-/, MINUS);
}
