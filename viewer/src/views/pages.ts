/** The scripts of pages and tabs, each loaded when it is opened: a chart, a diff or a token layout comes with some. */
import { pageOf } from "../model/route";

/** Whoever loads a script again waits for the same: also for its styles, which are there only when that is done. */
function once<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | null = null;
  return () => {
    loading ??= load().catch((fault) => {
      loading = null;
      throw fault;
    });
    return loading;
  };
}

export const PAGES = {
  experiments: once(() => import("./experiments/Experiments")),
  experiment: once(() => import("./experiment/ExperimentPage")),
  step: once(() => import("./step/StepPage")),
  trajectory: once(() => import("./trajectory/TrajectoryPage")),
  compare: once(() => import("./compare/ComparePage")),
  live: once(() => import("./live/LivePage")),
  search: once(() => import("./search/SearchPage")),
} as const;

export const TABS = {
  tokens: once(() => import("./trajectory/tokens/TokensTab")),
  ops: once(() => import("./trajectory/ops/OpsTab")),
  transitions: once(() => import("./trajectory/TransitionsTab")),
  raw: once(() => import("./trajectory/RawTab")),
} as const;

/** Begin to load what this address needs. A script that does not come is reported where it is waited for. */
export function loadEarly(path: string, query: URLSearchParams): void {
  const { name } = pageOf(path);
  if (name !== "unknown") PAGES[name]().catch(() => undefined);
  const tab = query.get("tab");
  if (name === "trajectory" && tab !== null && tab in TABS) TABS[tab as keyof typeof TABS]().catch(() => undefined);
}
