import type { Trajectories } from "../../api/types.gen";
import { directionOf, neighbour, nextOrder } from "../../model/order";
import { trajectoryPath } from "../../model/route";
import type { Range } from "../../model/scale";
import type { Scope } from "../../model/scope";
import { useText } from "../../text";
import { useKeys } from "../../ui/keys";
import { Link } from "../../ui/Link";
import { SortHead } from "../../ui/SortHead";
import { navigate, setQuery, useUrl } from "../../ui/url";
import { ProblemPanel } from "../parts/Problem";
import { shownColumns } from "./columns";
import { NoRows } from "./NoRows";
import { usePagedRows } from "./pagedRows";
import type { Selection } from "./selection";

interface Props {
  scope: Scope;
  range: Range | null;
  selection: Selection;
  every: number | false;
  onFirst: (page: Trajectories) => void;
}

/** Trajectories, one a row; columns to choose, several to select. */
export function TrajectoryList({ scope, range, selection, every, onFirst }: Props) {
  const t = useText();
  const order = scope.order ?? null;
  const { pages, first, rows, body, virtual, items } = usePagedRows("/api/trajectories", scope, { every, onFirst });
  const columns = shownColumns(useUrl().query.get("cols"), rows);
  const move = (by: number) => {
    const next = neighbour(rows, (row) => row.trajectory_id === selection.at, by);
    if (!next) return;
    selection.moveTo(next.trajectory_id);
    virtual.scrollToIndex(rows.indexOf(next), { align: "auto" });
  };
  useKeys([
    { keys: "j", label: t.keys.next, run: () => move(1) },
    { keys: "k", label: t.keys.previous, run: () => move(-1) },
    { keys: "ArrowDown", label: t.keys.next, run: () => move(1) },
    { keys: "ArrowUp", label: t.keys.previous, run: () => move(-1) },
    { keys: "x", label: t.keys.select, run: () => selection.at && selection.toggle(selection.at) },
    { keys: "c", label: t.keys.compare, run: selection.compare },
    { keys: "Enter", label: t.keys.open, run: () => selection.at && navigate(trajectoryPath(selection.at)) },
  ]);
  if (pages.error && !pages.data) return <ProblemPanel problem={pages.error} onRetry={() => void pages.refetch()} />;
  if (pages.data && rows.length === 0) return <NoRows scope={scope} />;
  const template = `28px ${columns.map((column) => column.width).join(" ")}`;
  return (
    <div className="grid list">
      <div
        className="grid-body both"
        ref={body}
        tabIndex={-1}
        role="table"
        aria-rowcount={first?.total ?? -1}
        aria-label={t.step.list}
        aria-busy={pages.isPlaceholderData}
      >
        <div className="grid-head list-row sticky" role="row" style={{ gridTemplateColumns: template }}>
          <span role="columnheader" tabIndex={-1}>
            <span className="sr">{t.step.select}</span>
          </span>
          {columns.map((column) =>
            column.sortable ? (
              <SortHead
                key={column.name}
                label={t.columns[column.name] ?? column.name}
                title={t.step.sortBy(t.columns[column.name] ?? column.name)}
                direction={directionOf(order, column.name)}
                numeric={column.numeric}
                onSort={() => setQuery({ sort: nextOrder(order, column.name) })}
              />
            ) : (
              <div key={column.name} role="columnheader" className="head" tabIndex={-1}>
                {t.columns[column.name] ?? column.name}
              </div>
            ),
          )}
        </div>
        <div style={{ height: virtual.getTotalSize(), position: "relative" }} role="rowgroup">
          {items.map((item) => {
            const row = rows[item.index]!;
            const id = row.trajectory_id;
            const here = id === selection.at;
            return (
              <div
                key={item.key}
                className={`list-row${here ? " here" : ""}`}
                role="row"
                aria-rowindex={item.index + 2}
                style={{ transform: `translateY(${item.start}px)`, gridTemplateColumns: template }}
                onClick={(event) => !(event.target as Element).closest("a, input") && navigate(trajectoryPath(id))}
              >
                <span role="cell" className="check">
                  <input
                    type="checkbox"
                    checked={selection.ids.includes(id)}
                    aria-label={`${t.step.select} ${id.slice(0, 8)}`}
                    tabIndex={here || (selection.at === null && item.index === 0) ? 0 : -1}
                    onChange={() => selection.toggle(id)}
                  />
                </span>
                {columns.map((column, index) => (
                  <span key={column.name} role="cell" className={column.numeric ? "num cut" : "cut"}>
                    {index === 0 ? (
                      <Link
                        href={trajectoryPath(id)}
                        tabIndex={here || (selection.at === null && item.index === 0) ? 0 : -1}
                      >
                        {column.show(row, t, range)}
                      </Link>
                    ) : (
                      column.show(row, t, range)
                    )}
                  </span>
                ))}
              </div>
            );
          })}
        </div>
      </div>
      {pages.isFetchingNextPage && <div className="dim grid-more">{t.step.loadingMore}</div>}
    </div>
  );
}
