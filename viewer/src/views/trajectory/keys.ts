import type { TrajectoryHead } from "../../api/types.gen";
import { isFailed, nextOp } from "../../model/outline";
import { comparePath, stepPath, trajectoryPath } from "../../model/route";
import { bestAndWorst, sibling, stepNeighbour } from "../../model/siblings";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { currentUrl, hrefWith, navigate, setAnchor, setQuery, useUrl } from "../../ui/url";
import type { Tab } from "./TrajectoryPage";

interface Panes {
  toggleOutline: () => void;
  toggleFacts: () => void;
}

/** Where an op is shown: the place in the address that every tab scrolls to. */
export function showOp(opId: string): void {
  setAnchor({ op: opId, tok: null });
}

/** The same tab of another trajectory. */
export function sameTab(id: string): string {
  const tab = currentUrl().query.get("tab");
  return trajectoryPath(id) + (tab ? `?tab=${tab}` : "");
}

export function useTrajectoryKeys(head: TrajectoryHead, tab: Tab, panes: Panes): void {
  const t = useText();
  const at = useUrl().anchor.get("op");
  const { row } = head;
  const go = (id: string | undefined) => id && id !== row.trajectory_id && navigate(sameTab(id));
  const show = (next: Tab) => setQuery({ tab: next === "conversation" ? null : next });
  const flagged = new Set(head.findings.flatMap((finding) => (finding.op_id ? [finding.op_id] : [])));
  const jump = (op: { op_id: string } | undefined) => op && showOp(op.op_id);
  const move = (by: number) => {
    const index = head.outline.findIndex((op) => op.op_id === at);
    jump(head.outline[index < 0 ? 0 : Math.min(head.outline.length - 1, Math.max(0, index + by))]);
  };
  const nextFlag = () => {
    const next = nextOp(head.outline, at, (op) => flagged.has(op.op_id) || op.flags.length > 0);
    const finding = head.findings.find((each) => each.op_id === next?.op_id);
    if (tab === "tokens" && finding?.token !== null && finding?.token !== undefined)
      navigate(hrefWith({}, { op: next!.op_id, tok: String(finding.token) }), { replace: true });
    else jump(next);
  };
  const compare = () => {
    const pair = bestAndWorst(head.siblings);
    if (!pair) return;
    if (head.is_group) return navigate(comparePath(pair));
    const other = pair[0] === row.trajectory_id ? pair[1] : pair[0];
    navigate(comparePath([row.trajectory_id, other]));
  };
  useKeys([
    { keys: "j", label: t.keys.next, run: () => move(1) },
    { keys: "k", label: t.keys.previous, run: () => move(-1) },
    { keys: "h", label: t.keys.previousSibling, run: () => go(sibling(head, row.trajectory_id, -1)) },
    { keys: "l", label: t.keys.nextSibling, run: () => go(sibling(head, row.trajectory_id, 1)) },
    {
      keys: "[",
      label: t.keys.sampleBefore,
      run: () => go(stepNeighbour(head.over_steps, row.step, -1)?.same_rollout),
    },
    { keys: "]", label: t.keys.sampleAfter, run: () => go(stepNeighbour(head.over_steps, row.step, 1)?.same_rollout) },
    { keys: "c", label: t.trajectory.compareBest, run: compare },
    { keys: "m", label: t.keys.conversation, run: () => show("conversation") },
    { keys: "t", label: t.keys.tokens, run: () => show("tokens") },
    { keys: "o", label: t.keys.ops, run: () => show("ops") },
    { keys: "s", label: t.keys.transitions, run: () => show("transitions") },
    { keys: "r", label: t.keys.raw, run: () => show("raw") },
    { keys: "e", label: t.keys.error, run: () => jump(nextOp(head.outline, at, (op) => isFailed(op.status))) },
    { keys: "f", label: t.keys.flag, run: nextFlag },
    { keys: "b", label: t.keys.outline, run: panes.toggleOutline },
    { keys: "i", label: t.keys.facts, run: panes.toggleFacts },
    {
      keys: "Escape",
      label: t.keys.up,
      run: () => navigate(`${stepPath(row.project, row.experiment, row.step)}#at=${row.trajectory_id}`),
    },
  ]);
}
