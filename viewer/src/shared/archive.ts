/** The data of this file. The loader has put it here as text before any other script runs. */
import { type Archive, groupPath, startPath, unpacked } from "../model/archive";

declare global {
  var rolltraceArchive: string;
}

export const archive = JSON.parse(globalThis.rolltraceArchive) as Archive;
globalThis.rolltraceArchive = "";
export const START = startPath(archive);
export const GROUP = groupPath(archive);
const values = unpacked(archive.values);

/** The answer to a question, or undefined if it is not in the file. */
export function answerTo(question: string): unknown {
  const at = Object.hasOwn(archive.answers, question) ? archive.answers[question] : undefined;
  return at === undefined ? undefined : values[at];
}
