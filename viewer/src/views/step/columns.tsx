/** The columns that the list of trajectories can have. */
import type { ReactNode } from "react";
import { numberOf } from "../../api/number";
import type { TrajectoryRow } from "../../api/types.gen";
import { clock, count, MISSING, measure, seconds } from "../../model/format";
import type { Range } from "../../model/scale";
import type { Catalogue } from "../../text";
import { LabelChips } from "../labels/LabelChips";
import { FlagChips } from "../parts/Flags";
import { RewardSquare } from "../parts/Reward";

export interface Column {
  readonly name: string;
  readonly width: string;
  readonly numeric: boolean;
  readonly sortable: boolean;
  readonly show: (row: TrajectoryRow, t: Catalogue, range: Range | null) => ReactNode;
}

const text = (name: string, width: string, show: Column["show"], sortable = true): Column => ({
  name,
  width,
  numeric: false,
  sortable,
  show,
});
const number = (name: string, width: string, show: Column["show"]): Column => ({
  name,
  width,
  numeric: true,
  sortable: true,
  show,
});

export const COLUMNS: readonly Column[] = [
  number("step", "56px", (row) => row.step ?? MISSING),
  number("sample_index", "76px", (row) => <bdi title={row.sample_index ?? ""}>{row.sample_index ?? MISSING}</bdi>),
  number("rollout_n", "36px", (row) => row.rollout_n ?? MISSING),
  text("validate", "76px", (row, t) => t.step.splits[String(row.validate)]),
  text("name", "112px", (row) => <bdi title={row.name}>{row.name}</bdi>),
  text("status", "84px", (row, t) => (
    <span className={`status-word ${row.status}`}>{t.status[row.status] ?? row.status}</span>
  )),
  number("reward", "76px", (row, _, range) => (
    <span className="with-square">
      {measure(numberOf(row.reward))}
      <RewardSquare cell={{ reward: row.reward, status: "ok" }} range={range} small />
    </span>
  )),
  number("advantage", "72px", (row) => measure(numberOf(row.advantage))),
  number("turns", "52px", (row) => count(row.turns)),
  number("tool_calls", "76px", (row) => count(row.tool_calls)),
  number("tool_errors", "80px", (row) => (
    <span className={row.tool_errors ? "err" : ""}>{count(row.tool_errors)}</span>
  )),
  number("prompt_tokens", "80px", (row) => count(row.prompt_tokens)),
  number("response_tokens", "68px", (row) => count(row.response_tokens)),
  number("duration_s", "76px", (row) => seconds(row.duration_s)),
  number("start_ns", "144px", (row) => clock(row.start_ns)),
  text("fate", "80px", (row) => <bdi title={row.fate_reason ?? ""}>{row.fate ?? MISSING}</bdi>),
  number("trained_step", "72px", (row) => row.trained_step ?? MISSING),
  number("staleness", "72px", (row) => count(row.staleness)),
  number("policy_version_max", "64px", (row) => versions(row)),
  text("error", "220px", (row) => <bdi title={row.error ?? ""}>{row.error ?? ""}</bdi>),
  text("tags", "200px", (row) => <bdi title={tagsOf(row)}>{tagsOf(row)}</bdi>, false),
  text("worker", "140px", (row) => <bdi title={row.worker}>{row.worker}</bdi>),
  text("run", "100px", (row) => <bdi title={row.run ?? ""}>{row.run ?? MISSING}</bdi>),
  text("trajectory_id", "84px", (row) => <span className="mono">{row.trajectory_id.slice(0, 8)}</span>),
  text("labels", "140px", (row) => <LabelChips labels={row.labels} />, false),
  text("flags", "minmax(120px, 1fr)", (row) => <FlagChips flags={row.flags} />, false),
];

export const USUAL =
  "sample_index,rollout_n,status,reward,advantage,turns,response_tokens,duration_s,fate,labels,flags";

export function chosenColumns(names: string | null): Column[] {
  const wanted = new Set((names || USUAL).split(","));
  return COLUMNS.filter((column) => wanted.has(column.name));
}

/** Without the labels where nothing is labelled: flags need the room. */
export function shownColumns(names: string | null, rows: readonly TrajectoryRow[]): Column[] {
  const labelled = rows.some((row) => row.labels.length > 0);
  return chosenColumns(names).filter((column) => labelled || column.name !== "labels");
}

function versions(row: TrajectoryRow): string {
  if (row.policy_version_max === null) return MISSING;
  if (row.policy_version_min === row.policy_version_max) return String(row.policy_version_max);
  return `${row.policy_version_min}→${row.policy_version_max}`;
}

function tagsOf(row: TrajectoryRow): string {
  return Object.entries(row.tags as Record<string, unknown>)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
