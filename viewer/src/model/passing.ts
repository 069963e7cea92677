/** What "pass" means in an experiment, in words. What it means is decided by the server. */
import type { Passing } from "../api/types.gen";

/** The condition: `correct >= 1`, `reward = 1`, `reward > 0`. */
export function ruleOf(passing: Passing): string {
  return passing.text.replace(/^pass: /, "");
}

/** What a figure is called: by the word for it, or by the condition where nobody has said that it means pass. */
export function passTitle(passing: Passing | null | undefined, word: string): string {
  return passing && passing.title !== "pass" ? passing.title : word;
}

/** The word for a figure and its condition: `pass rate: correct >= 1`, or `reward > 0` alone. */
export function passCaption(passing: Passing | null | undefined, word: string): string {
  return passing && passing.title === "pass" ? `${word}: ${ruleOf(passing)}` : passTitle(passing, word);
}

/** What a form asks for; null if the number typed is none. */
export function choiceOf(term: string, typed: string): { term: string | null; threshold: number | null } | null {
  const text = typed.trim();
  const threshold = text === "" ? null : Number(text);
  if (threshold !== null && !Number.isFinite(threshold)) return null;
  if (term === "" && threshold === null) return null;
  return { term: term || null, threshold };
}
