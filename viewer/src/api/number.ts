/** JSON has no NaN and no infinity: the server writes them as text, and this is where they become numbers again. */
export type WireNumber = number | "nan" | "inf" | "-inf";

const SPECIAL = { nan: Number.NaN, inf: Infinity, "-inf": -Infinity } as const;

export function numberOf(value: WireNumber): number;
export function numberOf(value: WireNumber | null | undefined): number | null;
export function numberOf(value: WireNumber | null | undefined): number | null {
  if (value === null || value === undefined) return null;
  return typeof value === "number" ? value : SPECIAL[value];
}

export function numbersOf(values: readonly (WireNumber | null)[]): (number | null)[] {
  return values.map((value) => numberOf(value));
}
