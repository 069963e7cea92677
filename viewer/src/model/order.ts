/** How a table is sorted, as the server and the address write it: `-reward` is descending. */
import { numberOf, type WireNumber } from "../api/number";

export type Direction = "ascending" | "descending" | "none";

export function directionOf(order: string | null, column: string): Direction {
  if (order === column) return "ascending";
  return order === `-${column}` ? "descending" : "none";
}

/** What a click on a column's head does: largest first, then smallest first, then as it was. */
export function nextOrder(order: string | null, column: string): string | null {
  const direction = directionOf(order, column);
  if (direction === "none") return `-${column}`;
  return direction === "descending" ? column : null;
}

/** The neighbour in a list, staying inside; from nowhere to the first. */
export function neighbour<T>(items: readonly T[], isHere: (item: T) => boolean, by: number): T | undefined {
  const at = items.findIndex(isHere);
  if (at < 0) return items[0];
  return items[Math.min(items.length - 1, Math.max(0, at + by))];
}

/** Adds what is not there, removes what is; at most so many. */
export function toggledIn(items: readonly string[], item: string, most: number): string[] {
  if (items.includes(item)) return items.filter((each) => each !== item);
  return items.length >= most ? [...items] : [...items, item];
}

/** The rows as the server would sort them by one column: what is not known comes last. */
export function sortedRows<R extends Readonly<Record<string, unknown>>>(rows: readonly R[], order: string): R[] {
  const column = order.replace(/^-/, "");
  const by = order.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [rankOf(a[column]), rankOf(b[column])];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    return by * (left < right ? -1 : left > right ? 1 : 0);
  });
}

function rankOf(value: unknown): number | string | null {
  if (value === "inf" || value === "-inf") return numberOf(value as WireNumber);
  if (typeof value === "boolean") return Number(value);
  if (Array.isArray(value)) return value.join(",");
  return value === "nan" || (typeof value !== "number" && typeof value !== "string") ? null : value;
}
