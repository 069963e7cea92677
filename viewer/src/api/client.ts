/** The one way to the server: typed by its OpenAPI document, so a path, an argument or a field that is gone is a type error. */
import { currentBase } from "../base";
import { takeEarly } from "./early";
import { get } from "./source";
import type { Problem, paths } from "./types.gen";

export type Path = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
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

export function hrefOf(
  path: string,
  pathArguments: object | undefined,
  query: object | undefined,
  base = currentBase(),
): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String((pathArguments as Record<string, unknown> | undefined)?.[name] ?? "")),
  );
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  const text = params.toString();
  return base + (text ? `${filled}?${text}` : filled);
}

export async function ask<P extends Path>(
  path: P,
  pathArguments: PathArguments<P> | undefined,
  query: Query<P> | undefined,
  signal?: AbortSignal,
  base?: string,
): Promise<Answer<P>> {
  return (await fetchJson(hrefOf(path, pathArguments as object, query as object, base), signal)) as Answer<P>;
}

export function fetchJson(href: string, signal?: AbortSignal): Promise<unknown> {
  return takeEarly(href) ?? request(href, signal);
}

export async function request(href: string, signal?: AbortSignal): Promise<unknown> {
  let response: Awaited<ReturnType<typeof get>>;
  try {
    response = await get(href, signal);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerProblem(0, { error: "unreachable", detail: "the server does not answer" });
  }
  return answerOf(response);
}

/** What the server answered; a problem if it is none. */
export async function answerOf(response: Awaited<ReturnType<typeof get>>): Promise<unknown> {
  if (response.ok) return response.json();
  const body = (await response.json().catch(() => null)) as Problem | null;
  throw new ServerProblem(response.status, body ?? { error: "http", detail: `HTTP ${response.status}` });
}
