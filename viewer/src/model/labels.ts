/** Labels and notes: who says what of which place now. */
import type { Label } from "../api/types.gen";

/** The label whose value is any text. */
export const NOTE = "note";
/** The value of a label that has no other. */
export const GIVEN = "yes";
export const MOST_KEYS = 9;

/** What a person said of a place, where it still counts. */
export function saidBy(labels: readonly Label[], author: string, opId: string | null, name: string): Label | undefined {
  return labels.find((label) => label.counts && label.author === author && label.name === name && label.op_id === opId);
}

/** What counts, notes last. */
export function counting(labels: readonly Label[]): Label[] {
  const now = labels.filter((label) => label.counts);
  return [...now.filter((label) => label.name !== NOTE), ...now.filter((label) => label.name === NOTE)];
}

/** The labels that an op has now, each name once. */
export function namesOf(labels: readonly Label[], opId: string | null): string[] {
  return [...new Set(labels.filter((label) => label.counts && label.op_id === opId).map((label) => label.name))];
}

/** Names as they are typed, with commas between them: one for each of the keys 1 to 9. */
export function keyLabels(typed: string): string[] {
  const names = typed.split(",").map((name) => name.trim());
  return [...new Set(names.filter((name) => name !== "" && name !== NOTE))].slice(0, MOST_KEYS);
}

/** How a label is written: its name, and its value if that says more. */
export function shown(label: Pick<Label, "name" | "value">): string {
  return label.value === null || label.value === GIVEN ? label.name : `${label.name}=${label.value}`;
}
