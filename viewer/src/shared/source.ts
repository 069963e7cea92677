/** Takes the place of `api/source.ts`: what is asked is answered from the file, and nothing is asked of anybody else. */
import type { get as ServerGet, imageSrc as ServerImage } from "../api/source";
import { questionOf } from "../model/archive";
import { sortedRows } from "../model/order";
import { answerTo, archive } from "./archive";

export const IS_FILE = true;

const NOT_HERE = {
  error: "not_found",
  detail: "This is not in the file: it holds what was chosen when it was made.",
  hint: "rolltrace view",
};

export const get: typeof ServerGet = async (href) => {
  const answer = answerTo(questionOf(href));
  if (answer === undefined) return { ok: false, status: 404, json: async () => NOT_HERE };
  const order = new URL(href, "http://localhost").searchParams.get("order");
  return { ok: true, status: 200, json: async () => (order ? inOrder(answer, order) : answer) };
};

function inOrder(answer: unknown, order: string): unknown {
  const listing = answer as { rows: readonly Record<string, unknown>[] };
  return { ...listing, rows: sortedRows(listing.rows, order) };
}

/** An image that is not in the file has no address, and is shown as one that was not kept. */
export const imageSrc: typeof ServerImage = (blob) => archive.images[blob] ?? "data:,";
