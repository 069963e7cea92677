/** How a table is sorted, as the server and the address write it: `-reward` is descending. */

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
