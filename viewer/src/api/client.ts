/** The one way to the server: typed by its OpenAPI document, so a path, an argument or a field that is gone is a type error. */
import { fromRoot } from "../root";
import { takeEarly } from "./early";
import type { Problem, paths } from "./types.gen";

export type Path = keyof paths;
type Get<P extends Path> = paths[P]["get"];
type Ok<P extends Path> = Get<P>["responses"][200] extends { content: { "application/json": infer A } } ? A : never;
export type Answer<P extends Path> = Ok<P>;
export type Query<P extends Path> = Get<P>["parameters"]["query"];
export type PathArguments<P extends Path> = Get<P>["parameters"]["path"];

/** The server said no, or could not be reached. */
export class ServerProblem extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.detail);
    this.name = "ServerProblem";
  }
  /** Nobody answers: the server was stopped, or the port-forward broke. */
  get unreachable(): boolean {
    return this.status === 0;
  }
}

export function hrefOf(path: string, pathArguments: object | undefined, query: object | undefined): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String((pathArguments as Record<string, unknown> | undefined)?.[name] ?? "")),
  );
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  const text = params.toString();
  return text ? `${filled}?${text}` : filled;
}

export async function ask<P extends Path>(
  path: P,
  pathArguments: PathArguments<P> | undefined,
  query: Query<P> | undefined,
  signal?: AbortSignal,
): Promise<Answer<P>> {
  return (await fetchJson(hrefOf(path, pathArguments as object, query as object), signal)) as Answer<P>;
}

export function fetchJson(href: string, signal?: AbortSignal): Promise<unknown> {
  return takeEarly(href) ?? request(href, signal);
}

export async function request(href: string, signal?: AbortSignal): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(fromRoot(href), { signal, headers: { accept: "application/json" }, credentials: "same-origin" });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerProblem(0, { error: "unreachable", detail: "the server does not answer" });
  }
  if (response.ok) return response.json();
  const body = (await response.json().catch(() => null)) as Problem | null;
  throw new ServerProblem(response.status, body ?? { error: "http", detail: `HTTP ${response.status}` });
}
