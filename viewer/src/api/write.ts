/** The one request that writes. Its header tells the server that a page of its own sent it. */
import { currentBase } from "../base";
import { fromRoot } from "../root";
import { answerOf, ServerProblem } from "./client";
import type { LabelRequest, Written } from "./types.gen";

export async function writeLabel(label: LabelRequest): Promise<Written> {
  let response: Response;
  try {
    response = await fetch(fromRoot(`${currentBase()}/api/label`), {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", "x-rolltrace": "write" },
      credentials: "same-origin",
      body: JSON.stringify(label),
    });
  } catch {
    throw new ServerProblem(0, { error: "unreachable", detail: "the server does not answer" });
  }
  return (await answerOf(response)) as Written;
}
