/** Bars of a histogram and the range that is brushed over them. */

export interface Bars {
  readonly edges: readonly number[];
  readonly counts: readonly number[];
}

/** The heights of bars, 0 to 1. A root, so that a bar beside a very tall one is still seen. */
export function heights(counts: readonly number[]): number[] {
  const top = Math.max(...counts, 1);
  return counts.map((n) => (n === 0 ? 0 : Math.max(0.06, Math.sqrt(n / top))));
}

/** Which bars a range covers, as [first, last]; null where it covers none. */
export function covered({ edges, counts }: Bars, range: readonly [number, number] | null): [number, number] | null {
  if (range === null || counts.length === 0) return null;
  let first = -1;
  let last = -1;
  for (let bar = 0; bar < counts.length; bar += 1) {
    const [from, to] = [edges[bar]!, edges[bar + 1]!];
    const isTop = bar === counts.length - 1;
    const [low, high] = range;
    const holdsPoint = (from <= low && low < to) || (isTop && low === to) || from === to;
    if (low === high || from === to ? holdsPoint && from <= high && to >= low : from < high && to > low) {
      if (first < 0) first = bar;
      last = bar;
    }
  }
  return first < 0 ? null : [first, last];
}

/** The values from the first to the last of these bars. */
export function rangeOfBars({ edges }: Bars, one: number, other: number): [number, number] {
  const [first, last] = one <= other ? [one, other] : [other, one];
  return [edges[first]!, edges[last + 1]!];
}
