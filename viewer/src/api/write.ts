/** The requests that write. Their header tells the server that a page of its own sent them. */
import { currentBase } from "../base";
import { fromRoot } from "../root";
import { answerOf, ServerProblem } from "./client";
import type { LabelRequest, Passing, PassRequest, Written } from "./types.gen";

export async function writeLabel(label: LabelRequest): Promise<Written> {
  return (await post("/api/label", label)) as Written;
}

/** Store what pass means in an experiment; with neither term nor threshold, nobody has chosen any more. */
export async function writePass(choice: PassRequest): Promise<Passing> {
  return (await post("/api/pass", choice)) as Passing;
}

async function post(path: string, body: object): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(fromRoot(`${currentBase()}${path}`), {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", "x-rolltrace": "write" },
      credentials: "same-origin",
      body: JSON.stringify(body),
    });
  } catch {
    throw new ServerProblem(0, { error: "unreachable", detail: "the server does not answer" });
  }
  return answerOf(response);
}
