/** What a shared file holds: answers of the server, as they were when it was made. Written by `rolltrace/view/archive.py`. */
import { baseOf } from "../base";
import { comparePath, stepPath, trajectoryPath } from "./route";

type Scalar = string | number | boolean | null;
/** A value inside another: itself if it is small, else `[n]`, the n-th value of the table. */
type Child = Scalar | readonly [number] | readonly [] | Record<string, never>;
type Entry = string | readonly Child[] | Readonly<Record<string, Child>>;

export interface Archive {
  /** What it is about, and so the page that it opens with. */
  readonly kind: "trajectory" | "group" | "comparison" | "store";
  /** Ids of the trajectories that are in it. */
  readonly trajectories: readonly string[];
  /** The group that it is about. */
  readonly group: { project: string; experiment: string; step: number | null; sample_index: string } | null;
  /** Project and name of the experiments that are in it. */
  readonly experiments: readonly (readonly [string, string])[];
  readonly version: string;
  readonly made_ns: number;
  /** Every text, list and object once, each after those inside it: prompts repeat what came before. */
  readonly values: readonly Entry[];
  /** Question, as `questionOf` writes it -> which value. */
  readonly answers: Readonly<Record<string, number>>;
  /** Hash -> `data:` address. */
  readonly images: Readonly<Record<string, string>>;
}

/** The table with all references followed. What occurs twice is one object: nobody may change it. */
export function unpacked(entries: readonly Entry[]): unknown[] {
  const values: unknown[] = [];
  const inside = (child: Child): unknown => (Array.isArray(child) && child.length === 1 ? values[child[0]] : child);
  for (const entry of entries) {
    if (typeof entry === "string") values.push(entry);
    else if (Array.isArray(entry)) values.push(entry.map(inside));
    else values.push(Object.fromEntries(Object.entries(entry).map(([name, child]) => [name, inside(child as Child)])));
  }
  return values;
}

/** Which arguments of a question matter here; the others do not change the answer that is in the file. */
const ARGUMENTS: readonly (readonly [RegExp, readonly string[]])[] = [
  [/^\/api\/compare$/, ["ids"]],
  [/^\/api\/experiment$/, ["project", "experiment"]],
  [/\/tokens$/, ["start"]],
  [/\/branch$/, ["part", "path"]],
];

/** A question in one spelling: its path, then the arguments that matter. */
export function questionOf(href: string): string {
  const { pathname: whole, searchParams } = new URL(href, "http://localhost");
  const pathname = whole.slice(baseOf(whole).length); // a file may lie in a folder `/s/...`
  const names = ARGUMENTS.find(([path]) => path.test(pathname))?.[1] ?? [];
  return [pathname, ...names.map((name) => spelled(name, searchParams.get(name) ?? ""))].join(" ");
}

/** Whichever was chosen first, a comparison of the same trajectories is the same. */
function spelled(name: string, value: string): string {
  return name === "ids" ? value.split(",").sort().join(",") : value;
}

export function groupPath({ group }: Pick<Archive, "group">): string | null {
  return group && stepPath(group.project, group.experiment, group.step, group.sample_index);
}

/** The page that a file opens with. */
export function startPath(archive: Pick<Archive, "kind" | "trajectories" | "group">): string {
  if (archive.kind === "trajectory") return trajectoryPath(archive.trajectories[0]!);
  if (archive.kind === "comparison") return comparePath(archive.trajectories);
  return groupPath(archive) ?? "/";
}
