import { useMemo } from "react";
import { numberOf } from "../../api/number";
import type { Cell, GroupRecord, Groups } from "../../api/types.gen";
import { measure } from "../../model/format";
import { directionOf, neighbour, nextOrder } from "../../model/order";
import { passCaption, passTitle } from "../../model/passing";
import { groupKey, recordsByGroup } from "../../model/records";
import { trajectoryPath } from "../../model/route";
import type { Range } from "../../model/scale";
import type { Scope } from "../../model/scope";
import { useText } from "../../text";
import { HoverTip } from "../../ui/HoverTip";
import { useKeys } from "../../ui/keys";
import { SortHead } from "../../ui/SortHead";
import { navigate, setQuery } from "../../ui/url";
import { ProblemPanel } from "../parts/Problem";
import { CellTip } from "./CellTip";
import { GroupLine } from "./GroupLine";
import { NoRows } from "./NoRows";
import { usePagedRows } from "./pagedRows";
import type { Selection } from "./selection";

const COLUMNS = [
  ["mean", "mean"],
  ["std", "std"],
  ["pass", "pass_rate"],
  ["tokens", "response_tokens_mean"],
  ["turns", "turns_mean"],
  ["slowest", "duration_s_max"],
] as const;

interface Props {
  scope: Scope;
  range: Range | null;
  selection: Selection;
  dim: boolean;
  records: readonly GroupRecord[];
  every: number | false;
  onFirst: (page: Groups) => void;
}

/** One row a sample, one cell a rollout. */
export function GroupsGrid({ scope, range, selection, dim, records, every, onFirst }: Props) {
  const t = useText();
  const order = scope.order ?? null;
  const { pages, first, rows, body, virtual, items } = usePagedRows("/api/groups", scope, { every, onFirst });
  const cells = useMemo(
    () => new Map(rows.flatMap((row) => row.cells.map((cell) => [cell.trajectory_id, cell]))),
    [rows],
  );
  const ofGroup = useMemo(() => recordsByGroup(records), [records]);
  const rowAt = rows.findIndex((row) => row.cells.some((cell) => cell.trajectory_id === selection.at));
  const moveTo = (cell: Cell | undefined, rowIndex: number) => {
    if (!cell) return;
    selection.moveTo(cell.trajectory_id);
    virtual.scrollToIndex(rowIndex, { align: "auto" });
  };
  const vertical = (by: number) => {
    const next = rowAt < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, rowAt + by));
    const column = rowAt < 0 ? 0 : rows[rowAt]!.cells.findIndex((cell) => cell.trajectory_id === selection.at);
    moveTo(rows[next]?.cells[Math.min(column, (rows[next]?.cells.length ?? 1) - 1)], next);
  };
  const horizontal = (by: number) => {
    const index = Math.max(0, rowAt);
    moveTo(
      neighbour(rows[index]?.cells ?? [], (cell) => cell.trajectory_id === selection.at, by),
      index,
    );
  };
  const open = () => selection.at && navigate(trajectoryPath(selection.at));
  useKeys([
    { keys: "j", label: t.keys.next, run: () => vertical(1) },
    { keys: "k", label: t.keys.previous, run: () => vertical(-1) },
    { keys: "ArrowDown", label: t.keys.next, run: () => vertical(1) },
    { keys: "ArrowUp", label: t.keys.previous, run: () => vertical(-1) },
    { keys: "l", label: t.keys.nextSibling, run: () => horizontal(1) },
    { keys: "h", label: t.keys.previousSibling, run: () => horizontal(-1) },
    { keys: "x", label: t.keys.select, run: () => selection.at && selection.toggle(selection.at) },
    { keys: "c", label: t.keys.compare, run: selection.compare },
    { keys: "Enter", label: t.keys.open, run: open },
  ]);
  if (pages.error && !pages.data) return <ProblemPanel problem={pages.error} onRetry={() => void pages.refetch()} />;
  if (pages.data && rows.length === 0) return <NoRows scope={scope} />;
  const widest = Math.max(1, ...rows.map((row) => row.cells.length));
  return (
    <div
      className="grid groups"
      role="table"
      aria-rowcount={first?.totals.groups ?? -1}
      aria-label={t.step.groups}
      aria-busy={pages.isPlaceholderData}
      style={{ "--widest": widest, "--cell": `${cellSize(widest)}px` } as React.CSSProperties}
    >
      <div className="grid-head group-row" role="row">
        <SortHead
          label={t.step.head.sample}
          title={t.step.sortBy(t.step.head.sample)}
          direction={directionOf(order, "sample_index")}
          numeric
          onSort={() => setQuery({ sort: nextOrder(order, "sample_index") })}
        />
        <div role="columnheader" className="head">
          {t.step.head.rollouts}
        </div>
        {COLUMNS.map(([word, column]) => (
          <SortHead
            key={column}
            label={word === "pass" ? passTitle(first?.passing[0], t.step.head.pass) : t.step.head[word]}
            title={t.step.sortBy(
              word === "pass" ? passCaption(first?.passing[0], t.step.head.pass) : t.step.head[word],
            )}
            direction={directionOf(order, column)}
            numeric
            onSort={() => setQuery({ sort: nextOrder(order, column) })}
          />
        ))}
        <div role="columnheader" className="head">
          {t.step.head.flags}
        </div>
      </div>
      <div className="grid-body" ref={body} role="rowgroup" tabIndex={-1}>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="presentation">
          {items.map((item) => (
            <GroupLine
              key={item.key}
              group={rows[item.index]!}
              records={ofGroup.get(groupKey(rows[item.index]!))}
              top={item.start}
              index={item.index}
              here={item.index === rowAt}
              dim={dim}
              range={range}
              selection={selection}
              tabbable={selection.at === null ? item.index === 0 : undefined}
              showStep={scope.step === undefined}
            />
          ))}
        </div>
        {pages.isFetchingNextPage && <div className="dim grid-more">{t.step.loadingMore}</div>}
      </div>
      <HoverTip
        container={body}
        render={(id) => {
          const cell = cells.get(id);
          return cell && <CellTip cell={cell} reward={measure(numberOf(cell.reward))} />;
        }}
      />
    </div>
  );
}

/** Groups of eight have room for marks; the larger the group, the smaller its cells. */
function cellSize(widest: number): number {
  if (widest <= 10) return 20;
  if (widest <= 20) return 14;
  return widest <= 40 ? 9 : 6;
}
