/** Which trajectories a listing shows, and how the same question is asked elsewhere. */
import { NO_STEP } from "./route";
import { joined, literal } from "./where";

export interface Scope {
  readonly project?: string;
  readonly experiment?: string;
  readonly step?: number | null;
  readonly sample?: string | null;
  readonly validate?: boolean | null;
  readonly run?: string | null;
  readonly allRuns?: boolean;
  readonly where?: string;
  readonly order?: string | null;
}

/** How many rows of a listing are asked for at once. */
export const ROWS_AT_ONCE = 200;

/** What the address of a step's page says. */
export function scopeOf(
  page: { project: string; experiment: string; step: string; sample: string | null },
  query: URLSearchParams,
): Scope {
  return {
    project: page.project,
    experiment: page.experiment,
    step: page.step === NO_STEP ? null : Number(page.step),
    sample: page.sample,
    where: query.get("where") ?? "",
    allRuns: query.get("runs") === "all",
    run: query.get("run"),
    order: query.get("sort"),
  };
}

/** Certain trajectories, of whatever run. */
export function scopeOfIds(ids: readonly string[]): Scope {
  return { where: `trajectory_id in (${ids.map(literal).join(", ")})`, allRuns: true };
}

/** Which of the two tables a step's page shows: the rollouts of one sample are a list. */
export function tableOf(sample: string | null, query: URLSearchParams): "groups" | "list" {
  return (query.get("view") ?? (sample === null ? "groups" : "list")) === "list" ? "list" : "groups";
}

/** What the server is asked. A step that was never given is a condition, since an argument that is missing means all. */
export function queryOf(scope: Scope) {
  const where = joined([...(scope.step === null ? ["step is null"] : []), ...(scope.where ? [scope.where] : [])]);
  return {
    project: scope.project,
    experiment: scope.experiment,
    step: scope.step ?? undefined,
    sample_index: scope.sample ?? undefined,
    validate: scope.validate ?? undefined,
    run: scope.run ?? undefined,
    all_runs: scope.allRuns || undefined,
    where: where || undefined,
  };
}

/** What the server is asked for a page of the listing. */
export function listingOf(scope: Scope) {
  return { ...queryOf(scope), order: scope.order ?? null, limit: ROWS_AT_ONCE };
}

/** One filter that means the same without the page around it. */
export function asFilter(scope: Scope): string {
  const parts: string[] = [];
  if (scope.project !== undefined) parts.push(`project = ${literal(scope.project)}`);
  if (scope.experiment !== undefined) parts.push(`experiment = ${literal(scope.experiment)}`);
  if (scope.step !== undefined) parts.push(scope.step === null ? "step is null" : `step = ${scope.step}`);
  if (scope.sample !== undefined && scope.sample !== null) parts.push(`sample_index = ${literal(scope.sample)}`);
  if (typeof scope.validate === "boolean") parts.push(`validate = ${scope.validate}`);
  if (scope.run) parts.push(`run = ${literal(scope.run)}`);
  if (scope.where) parts.push(scope.where);
  return joined(parts);
}

export type Listing = "trajectories" | "groups" | "steps" | "experiments";

export function asPython(listing: Listing, scope: Scope, storePath: string): string {
  const args = namedArguments(listing, scope).map(([name, value]) => `    ${name}=${value},\n`);
  const call = args.length === 0 ? `store.${listing}()` : `store.${listing}(\n${args.join("")})`;
  return `import rolltrace\n\nstore = rolltrace.open(${pythonText(storePath)})\nrows = ${call}\n`;
}

function namedArguments(listing: Listing, scope: Scope): [string, string][] {
  const args: [string, string][] = [];
  if (scope.project !== undefined) args.push(["project", pythonText(scope.project)]);
  if (scope.experiment !== undefined) args.push(["experiment", pythonText(scope.experiment)]);
  if (listing === "steps" || listing === "experiments") return args;
  if (typeof scope.step === "number") args.push(["step", String(scope.step)]);
  if (scope.sample !== undefined && scope.sample !== null) args.push(["sample_index", pythonText(scope.sample)]);
  if (typeof scope.validate === "boolean") args.push(["validate", scope.validate ? "True" : "False"]);
  if (scope.run) args.push(["run", pythonText(scope.run)]);
  if (scope.allRuns) args.push(["all_runs", "True"]);
  const where = queryOf(scope).where;
  if (where) args.push(["where", pythonText(where)]);
  if (scope.order) args.push(["order", pythonText(scope.order)]);
  return args;
}

export function asCommand(listing: Listing, scope: Scope, storePath: string): string {
  const command = listing === "groups" ? "groups" : "ls";
  const flags = listing === "steps" ? " --steps" : listing === "experiments" ? " --experiments" : "";
  const parts = [`rolltrace ${command} ${shellText(storePath)}${flags}`];
  if (scope.project !== undefined) parts.push(`--project ${shellText(scope.project)}`);
  if (scope.experiment !== undefined) parts.push(`--experiment ${shellText(scope.experiment)}`);
  if (typeof scope.step === "number") parts.push(`--step ${scope.step}`);
  if (scope.sample !== undefined && scope.sample !== null) parts.push(`--sample ${shellText(scope.sample)}`);
  if (scope.run) parts.push(`--run ${shellText(scope.run)}`);
  if (scope.allRuns) parts.push("--all-runs");
  const where = queryOf(scope).where;
  if (where) parts.push(`--where ${shellText(where)}`);
  if (scope.order) parts.push(`--order=${scope.order}`);
  return parts.join(" ");
}

function pythonText(text: string): string {
  return JSON.stringify(text);
}

function shellText(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
