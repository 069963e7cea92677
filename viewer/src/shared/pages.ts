/** Takes the place of `views/pages.ts`: all scripts are in the file already. */
import type { TABS as Loaded } from "../views/pages";

export const TABS: typeof Loaded = {
  tokens: () => import("../views/trajectory/tokens/TokensTab"),
  ops: () => import("../views/trajectory/ops/OpsTab"),
  transitions: () => import("../views/trajectory/TransitionsTab"),
  raw: () => import("../views/trajectory/RawTab"),
};
