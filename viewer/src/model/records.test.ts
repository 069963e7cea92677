import { expect, test } from "vitest";
import type { GroupRecord } from "../api/types.gen";
import { groupKey, recordsByGroup } from "./records";

const record = (id: string, sample: string, validate = false) =>
  ({ trajectory_id: id, step: 3, sample_index: sample, validate, run: "run-a" }) as GroupRecord;

test("records stand with their group, and validation is a group of its own", () => {
  const groups = recordsByGroup([record("a", "7"), record("b", "8"), record("c", "7"), record("d", "7", true)]);
  const group = { step: 3, sample_index: "7", validate: false, run: "run-a" };
  expect(groups.get(groupKey(group))?.map((each) => each.trajectory_id)).toEqual(["a", "c"]);
  expect(groups.get(groupKey({ ...group, run: "run-b" }))).toBeUndefined();
});
