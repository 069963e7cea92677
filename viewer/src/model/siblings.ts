/** The rollouts of a group, and the same sample at other steps. */
import { numberOf } from "../api/number";
import type { Cell, SampleStep } from "../api/types.gen";

/** The next or previous of a group, its records after its rollouts; staying inside it. */
export function sibling(
  group: { readonly siblings: readonly Identified[]; readonly group_records: readonly Identified[] },
  id: string,
  by: number,
): string | undefined {
  const members = [...group.siblings, ...group.group_records];
  const at = members.findIndex((each) => each.trajectory_id === id);
  return at < 0 ? undefined : members[at + by]?.trajectory_id;
}

type Identified = Pick<Cell, "trajectory_id">;

/** The nearest other step of the sample, before (-1) or after (+1). */
export function stepNeighbour(steps: readonly SampleStep[], step: number | null, by: -1 | 1): SampleStep | undefined {
  if (step === null) return undefined;
  const others = steps.filter((each) => each.step !== null && (by < 0 ? each.step < step : each.step > step));
  return others.sort((a, b) => by * (a.step! - b.step!))[0];
}

/** Ids of the rollouts with the highest and the lowest reward; null where none differ. */
export function bestAndWorst(cells: readonly Cell[]): [string, string] | null {
  const scored = cells.flatMap((cell) => {
    const reward = numberOf(cell.reward);
    return reward === null || Number.isNaN(reward) ? [] : [{ id: cell.trajectory_id, reward }];
  });
  if (scored.length < 2) return null;
  const best = scored.reduce((a, b) => (b.reward > a.reward ? b : a));
  const worst = scored.reduce((a, b) => (b.reward < a.reward ? b : a));
  return best.reward === worst.reward ? null : [best.id, worst.id];
}
