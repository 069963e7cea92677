/** Which trajectories a listing shows, and how the same question is asked elsewhere. */
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

/** The documented view, narrowed to the place. A filter may ask for more than columns, so it is added as a comment. */
export function asSql(listing: Listing, scope: Scope): string {
  const conditions: string[] = [];
  if (scope.project !== undefined) conditions.push(`project = ${sqlText(scope.project)}`);
  if (scope.experiment !== undefined) conditions.push(`experiment = ${sqlText(scope.experiment)}`);
  if (scope.step !== undefined) conditions.push(scope.step === null ? "step is null" : `step = ${scope.step}`);
  if (scope.sample !== undefined && scope.sample !== null) conditions.push(`sample_index = ${sqlText(scope.sample)}`);
  if (typeof scope.validate === "boolean") conditions.push(`validate = ${scope.validate}`);
  if (scope.run) conditions.push(`run = ${sqlText(scope.run)}`);
  else if (!scope.allRuns && listing === "trajectories") conditions.push("not superseded");
  const order = scope.order ? `\norder by ${scope.order.replace(/-(\w+)/g, "$1 desc").replaceAll(",", ", ")}` : "";
  const filter = scope.where ? `\n-- filter on the page: ${scope.where.replaceAll("\n", " ")}` : "";
  const where = conditions.length ? `\nwhere ${conditions.join("\n  and ")}` : "";
  return `select * from ${listing}${where}${order}${filter}\n`;
}

export function asCommand(listing: Listing, scope: Scope, storePath: string): string {
  const command = listing === "groups" ? "groups" : "ls";
  const flags = listing === "steps" ? " --steps" : listing === "experiments" ? " --experiments" : "";
  const parts = [`rolltrace ${command} ${shellText(storePath)}${flags}`];
  if (scope.project !== undefined) parts.push(`--project ${shellText(scope.project)}`);
  if (scope.experiment !== undefined) parts.push(`--experiment ${shellText(scope.experiment)}`);
  if (typeof scope.step === "number") parts.push(`--step ${scope.step}`);
  if (scope.sample !== undefined && scope.sample !== null) parts.push(`--sample ${shellText(scope.sample)}`);
  const where = queryOf(scope).where;
  if (where) parts.push(`--where ${shellText(where)}`);
  if (scope.order) parts.push(`--order=${scope.order}`);
  return parts.join(" ");
}

function pythonText(text: string): string {
  return JSON.stringify(text);
}

function sqlText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function shellText(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
