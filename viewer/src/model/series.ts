/** Series over steps: what the charts and the strip of figures need. */

/** How a value changed since so many steps before; null where one of both is not known. */
export function changeOver(
  steps: readonly (number | null)[],
  values: readonly (number | null)[],
  step: number,
  distance: number,
): number | null {
  const now = steps.indexOf(step);
  let before = -1;
  steps.forEach((each, index) => {
    if (each !== null && each <= step - distance) before = index;
  });
  const [later, earlier] = [values[now], values[before]];
  if (later === null || later === undefined || earlier === null || earlier === undefined) return null;
  const difference = later - earlier;
  return Number.isFinite(difference) ? difference : null;
}

/** The last value that is there. */
export function lastKnown(values: readonly (number | null)[]): number | null {
  return values.findLast((value) => value !== null && Number.isFinite(value)) ?? null;
}

export interface Line {
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
}

/** Several lines on one axis of steps, as charts want them: the steps, then one column a line. */
export function aligned(lines: readonly Line[]): { steps: number[]; columns: (number | null)[][] } {
  const steps = [...new Set(lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, index) => [step, index]));
  const columns = lines.map((line) => {
    const column = new Array<number | null>(steps.length).fill(null);
    line.steps.forEach((step, index) => {
      const value = line.values[index] ?? null;
      column[place.get(step)!] = value === null || Number.isFinite(value) ? value : null;
    });
    return column;
  });
  return { steps, columns };
}

/** Sums of the first, the first two, ... columns: the edges of stacked areas. */
export function stacked(columns: readonly (readonly (number | null)[])[]): number[][] {
  const sums: number[][] = [];
  for (const column of columns) {
    const below = sums.at(-1);
    sums.push(column.map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  }
  return sums;
}
