/** The scripts of pages and tabs, each loaded when it is opened: a chart, a diff or a token layout comes with some. */
import { pageOf } from "../model/route";
import { script } from "../ui/script";

export const PAGES = {
  experiments: script(() => import("./experiments/Experiments")),
  experiment: script(() => import("./experiment/ExperimentPage")),
  step: script(() => import("./step/StepPage")),
  trajectory: script(() => import("./trajectory/TrajectoryPage")),
  compare: script(() => import("./compare/ComparePage")),
  live: script(() => import("./live/LivePage")),
  search: script(() => import("./search/SearchPage")),
} as const;

export const TABS = {
  tokens: script(() => import("./trajectory/tokens/TokensTab")),
  ops: script(() => import("./trajectory/ops/OpsTab")),
  transitions: script(() => import("./trajectory/TransitionsTab")),
  raw: script(() => import("./trajectory/RawTab")),
} as const;

/** Load what this address needs. A script that does not come is reported where it is shown. */
export async function loadEarly(path: string, query: URLSearchParams): Promise<void> {
  const { name } = pageOf(path);
  const tab = query.get("tab");
  await Promise.allSettled([
    name !== "unknown" && PAGES[name].load(),
    name === "trajectory" && tab !== null && tab in TABS && TABS[tab as keyof typeof TABS].load(),
  ]);
}
