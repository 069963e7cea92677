import { expect, test } from "vitest";
import { bytes, change, coarse, count, measure, percent, seconds, short } from "./format";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

test("counts are grouped", () => {
  expect([count(1982), count(0), count(null), count(-1200)]).toEqual(["1,982", "0", "–", "−1,200"]);
  expect([812, 2100, 30_000, 999_900, 1_234_567].map(short)).toEqual(["812", "2.1k", "30k", "1M", "1.2M"]);
});

test("measures keep the digits that tell something", () => {
  expect([0.4, 1, -0.83, 0.0004, 0, 1234.5, 152.27].map((x) => measure(x))).toEqual([
    "0.40",
    "1.00",
    "−0.83",
    "0.0004",
    "0.00",
    "1,235",
    "152.3",
  ]);
  expect([Number.NaN, Infinity, -Infinity].map((x) => measure(x))).toEqual(["NaN", "∞", "−∞"]);
  expect([change(0.07), change(-0.07), change(0)]).toEqual(["+0.07", "−0.07", "0.00"]);
});

test("time spans have the unit that fits", () => {
  expect([0.0000004, 0.0004, 0.0042, 0.084, 1.24, 59.96, 125, 3725, 200_000, 0].map((x) => plain(seconds(x)))).toEqual([
    "1 µs",
    "400 µs",
    "4.2 ms",
    "84 ms",
    "1.2 s",
    "60.0 s",
    "2 min 5 s",
    "1 h 2 min",
    "2 d 7 h",
    "0 s",
  ]);
});

test("shares and sizes", () => {
  expect([0.18, 0.004, 0, 1].map((x) => plain(percent(x)))).toEqual(["18 %", "0.4 %", "0 %", "100 %"]);
  expect([12, 1200, 45_600_000].map((x) => plain(bytes(x)))).toEqual(["12 B", "1.2 kB", "46 MB"]);
});

test("a time span where only its size matters has one unit", () => {
  expect([5, 90, 7300, 200_000].map(coarse)).toEqual(["5\u00a0s", "1\u00a0min", "2\u00a0h", "2\u00a0d"]);
});
