/** Colour scales. Reward is sequential (viridis: even steps of lightness, safe for colour-blind eyes); logprob and
 * advantage diverge from "nothing to see". */

type Rgb = readonly [number, number, number];

const VIRIDIS: readonly Rgb[] = [
  [68, 1, 84],
  [72, 40, 120],
  [62, 74, 137],
  [49, 104, 142],
  [38, 130, 142],
  [31, 158, 137],
  [53, 183, 121],
  [110, 206, 88],
  [181, 222, 43],
  [253, 231, 37],
];

export interface Range {
  readonly min: number;
  readonly max: number;
}

/** Where a value stands in a range, 0 to 1; a range of one value is its top. */
export function share(value: number, { min, max }: Range): number {
  if (value === Infinity) return 1;
  if (value === -Infinity) return 0;
  if (!(max > min)) return value >= max ? 1 : 0;
  return Math.min(1, Math.max(0, (value - min) / (max - min)));
}

export function viridis(position: number): string {
  const [r, g, b] = mix(VIRIDIS, position);
  return `rgb(${r} ${g} ${b})`;
}

/** Whether a mark on this colour should be dark to be seen. */
export function isLight(position: number): boolean {
  const [r, g, b] = mix(VIRIDIS, position);
  return 0.299 * r + 0.587 * g + 0.114 * b > 120;
}

function mix(stops: readonly Rgb[], position: number): Rgb {
  const place = Math.min(1, Math.max(0, position)) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(place));
  const part = place - index;
  const [from, to] = [stops[index]!, stops[index + 1]!];
  return [0, 1, 2].map((k) => Math.round(from[k]! + (to[k]! - from[k]!) * part)) as unknown as Rgb;
}

/** A logprob of this or less is as surprising as the scale shows (p = 0.7 %). */
export const SURPRISING = -5;

/** How strongly an unlikely token is marked, 0 to 1. NaN and impossible tokens are marked fully. */
export function surprise(logprob: number): number {
  if (Number.isNaN(logprob)) return 1;
  return Math.min(1, Math.max(0, logprob / SURPRISING));
}

/** Advantages are scaled to about one: this or more is shown in full colour. */
const STRONG_ADVANTAGE = 2;

/** How far an advantage leans to its side, -1 to 1. */
export function leaning(advantage: number): number {
  if (Number.isNaN(advantage)) return 0;
  return Math.max(-1, Math.min(1, advantage / STRONG_ADVANTAGE));
}

/** Distinct hues for categories such as policy versions, told apart in light and dark. */
export function hue(index: number): number {
  return (210 + index * 137.508) % 360;
}
