import { expect, test } from "vitest";
import { pagesLike } from "./jump";

const pages = [
  { words: ["实时", "live"], href: "/live" },
  { words: ["全部实验", "experiments"], href: "/" },
];

test("a page is found by the first letters of its name, in either language", () => {
  expect(pagesLike("Li", pages).map((page) => page.href)).toEqual(["/live"]);
  expect(pagesLike("全部", pages)).toEqual([{ kind: "page", label: "全部实验", detail: "/", href: "/" }]);
  expect(pagesLike(" ", pages)).toEqual([]);
});
