/** What a page will ask as soon as it is there: addresses that can be asked for before. */
import { hrefOf, type Path, type PathArguments, type Query } from "../api/client";
import { pageOf } from "./route";
import { listingOf, scopeOf, tableOf } from "./scope";
import { FIRST_TOKENS } from "./tokens";

export function firstQuestions(path: string, query: URLSearchParams, anchor: URLSearchParams): string[] {
  const page = pageOf(path);
  switch (page.name) {
    case "experiments":
      return [hrefFor("/api/experiments")];
    case "step": {
      const scope = scopeOf(page, query);
      if (scope.where) return []; // is checked first
      return [hrefFor(tableOf(page.sample, query) === "list" ? "/api/trajectories" : "/api/groups", listingOf(scope))];
    }
    case "trajectory": {
      const of = { trajectory_id: page.id };
      const head = hrefFor("/api/trajectory/{trajectory_id}", undefined, of);
      const tab = query.get("tab") ?? "conversation";
      if (tab === "conversation") return [head, hrefFor("/api/trajectory/{trajectory_id}/conversation", undefined, of)];
      if (tab === "tokens" && !anchor.has("tok"))
        return [head, hrefFor("/api/trajectory/{trajectory_id}/tokens", FIRST_TOKENS, of)];
      return [head];
    }
    default:
      return [];
  }
}

function hrefFor<P extends Path>(path: P, query?: Query<P>, pathArguments?: PathArguments<P>): string {
  return hrefOf(path, pathArguments as object, query as object);
}
