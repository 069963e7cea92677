/** Takes the place of `views/pages.ts`: all scripts are in the file already. */
import { script } from "../ui/script";
import type { TABS as Loaded } from "../views/pages";

export const TABS: typeof Loaded = {
  tokens: script(() => import("../views/trajectory/tokens/TokensTab")),
  ops: script(() => import("../views/trajectory/ops/OpsTab")),
  transitions: script(() => import("../views/trajectory/TransitionsTab")),
  raw: script(() => import("../views/trajectory/RawTab")),
};
