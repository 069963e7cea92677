/** Records of whole groups, and which group each belongs to. */
import type { GroupRecord, GroupRow } from "../api/types.gen";

type Group = Pick<GroupRow, "step" | "sample_index" | "validate" | "run">;

export function groupKey(group: Group): string {
  return JSON.stringify([group.step, group.sample_index, group.validate, group.run]);
}

/** The records of each group, by its key, the oldest first. */
export function recordsByGroup(records: readonly GroupRecord[]): Map<string, GroupRecord[]> {
  const groups = new Map<string, GroupRecord[]>();
  for (const record of records) {
    const key = groupKey(record);
    groups.set(key, [...(groups.get(key) ?? []), record]);
  }
  return groups;
}
