import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef } from "react";
import { usePages } from "../../api/hooks";
import type { GroupRow, Groups, Trajectories, TrajectoryRow } from "../../api/types.gen";
import { listingOf, type Scope } from "../../model/scope";

const ROW_PX = 28;
/** The next page is asked for when so few rows are left below what is seen. */
const ROWS_LEFT = 40;

interface Listings {
  "/api/groups": { page: Groups; row: GroupRow };
  "/api/trajectories": { page: Trajectories; row: TrajectoryRow };
}

interface Options<P extends keyof Listings> {
  every: number | false;
  /** Told of the first page, which has the totals. */
  onFirst: (page: Listings[P]["page"]) => void;
}

/** A listing as virtual rows of one height, read page by page as one scrolls. */
export function usePagedRows<P extends keyof Listings>(path: P, scope: Scope, { every, onFirst }: Options<P>) {
  const pages = usePages(path, listingOf(scope), { every });
  const answers = pages.data?.pages as Listings[P]["page"][] | undefined;
  const rows = useMemo(
    () => (answers?.flatMap<GroupRow | TrajectoryRow>((page) => page.rows) ?? []) as Listings[P]["row"][],
    [answers],
  );
  const body = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => body.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  });
  const items = virtual.getVirtualItems();
  const lastSeen = items.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = pages;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && lastSeen >= rows.length - ROWS_LEFT) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage, lastSeen, rows.length]);
  const first = answers?.[0];
  useEffect(() => {
    if (first) onFirst(first);
  }, [first, onFirst]);
  return { pages, first, rows, body, virtual, items };
}
