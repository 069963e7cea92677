/** Lengths of bars beside numbers, 0 to 1. They begin at zero and share one scale, as long as that shows them all. */

/** Beside a number larger than this, such as a length in characters, shares and rewards would have no bar to be seen. */
const MOST = 10;

export function barLengths(values: readonly (number | string)[]): number[] {
  const sizes = values.map((value) => (typeof value === "number" && Number.isFinite(value) ? Math.abs(value) : 0));
  const largest = Math.max(1, ...sizes);
  const ofSmall = largest > MOST ? Math.max(1, ...sizes.filter((size) => size <= MOST)) : largest;
  return sizes.map((size) => size / (size > MOST ? largest : ofSmall));
}
