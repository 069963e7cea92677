import { expect, test } from "vitest";
import type { CompareTurn } from "../api/types.gen";
import { equalStart } from "./compare";

const turn = (...texts: string[]): CompareTurn =>
  ({
    messages: texts.map((text) => ({ role: "user", parts: [{ kind: "text", text }], calls: [] })),
  }) as unknown as CompareTurn;

test("messages that all columns begin with are counted", () => {
  expect(equalStart([turn("a", "b", "c"), turn("a", "b", "d"), null])).toBe(2);
  expect(equalStart([turn("a"), turn("a")])).toBe(1);
  expect(equalStart([turn("a"), null])).toBe(0);
});
