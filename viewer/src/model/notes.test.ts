import { expect, test } from "vitest";
import { noteText } from "./notes";

const note = (body: unknown, event = "note") => noteText({ event, body } as Parameters<typeof noteText>[0]);

test("a note is its text, with what was recorded beside it", () => {
  expect(note({ text: "both agree", fields: {} })).toBe("both agree");
  expect(note({ text: "odd", fields: { author: "me" } })).toBe('odd {author: "me"}');
  expect(note("plain")).toBe("plain");
});

test("a change of tags shows the tags", () => {
  expect(note({ level: "hard" }, "tag")).toBe('tag {level: "hard"}');
});
