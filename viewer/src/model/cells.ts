/** What a rollout's cell in the grid says without words. */
import { numberOf, type WireNumber } from "../api/number";
import { isLight, type Range, share, viridis } from "./scale";

export interface CellLook {
  /** CSS colour, or null where there is nothing to show on the scale: no reward yet, or NaN. */
  readonly fill: string | null;
  readonly nan: boolean;
  /** Marks on the cell are dark. */
  readonly light: boolean;
  readonly mark: "error" | "interrupted" | "cancelled" | "running" | null;
  readonly cut: boolean;
  readonly flagged: boolean;
}

interface CellData {
  readonly reward: WireNumber | null;
  readonly status: string;
  readonly truncated?: boolean;
  readonly flags?: readonly string[];
}

/** A reward whose place on the scale is not known yet. */
const UNPLACED = "var(--line)";
const MARKED = new Set(["error", "interrupted", "cancelled", "running"]);
/** Flags that the cell already shows in another way. */
const SHOWN = new Set(["cut_by_length", "interrupted"]);

export function cellLook(cell: CellData, range: Range | null): CellLook {
  const reward = numberOf(cell.reward);
  const nan = reward !== null && Number.isNaN(reward);
  const position = reward === null || nan || range === null ? null : share(reward, range);
  const fill = position === null ? UNPLACED : viridis(position);
  return {
    fill: reward === null || nan ? null : fill,
    nan,
    light: position === null || isLight(position),
    mark: MARKED.has(cell.status) ? (cell.status as CellLook["mark"]) : null,
    cut: cell.truncated ?? false,
    flagged: (cell.flags ?? []).some((flag) => !SHOWN.has(flag)),
  };
}

export function rangeFrom(pair: readonly number[] | null | undefined): Range | null {
  return pair && pair.length === 2 ? { min: Math.min(0, pair[0]!), max: pair[1]! } : null;
}

/** Flags that mean something failed; the others are only odd. */
const BAD_FLAGS = new Set(["tool_error", "interrupted", "length_mismatch", "unreadable", "check_failed"]);

export function isBadFlag(flag: string): boolean {
  return BAD_FLAGS.has(flag);
}
