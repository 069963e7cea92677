/** Server data lives in one query cache. What is on the page stays until what replaces it is there. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { currentBase } from "../base";
import { type Answer, ask, hrefOf, type Path, type PathArguments, type Query, type ServerProblem } from "./client";
import { takeAnswered } from "./early";

interface Options<P extends Path> {
  path?: PathArguments<P>;
  query?: Query<P>;
  enabled?: boolean;
  /** Ask again after so many milliseconds, as long as the page is seen. */
  every?: number | false;
  /** Show the last answer while another is on its way. */
  keep?: boolean;
}

export function useAnswer<P extends Path>(path: P, options: Options<P> = {}) {
  return useQuery<Answer<P>, ServerProblem>({
    queryKey: [currentBase(), path, options.path ?? null, options.query ?? null],
    queryFn: ({ signal }) => ask(path, options.path, options.query, signal),
    initialData: () =>
      takeAnswered(hrefOf(path, options.path as object, options.query as object)) as Answer<P> | undefined,
    enabled: options.enabled ?? true,
    refetchInterval: options.every ?? false,
    placeholderData: options.keep === false ? undefined : (keepPreviousData as never),
  });
}

type Paged = { next: string | null };
type PagedPath = { [P in Path]: Answer<P> extends Paged ? P : never }[Path];

/** A listing that is read page by page as one scrolls. */
export function usePages<P extends PagedPath>(path: P, query: Query<P>, options: { every?: number | false } = {}) {
  return useInfiniteQuery<Answer<P>, ServerProblem, { pages: Answer<P>[] }, unknown[], string | null>({
    queryKey: [currentBase(), path, "pages", query],
    initialPageParam: null,
    initialData: () => {
      const first = takeAnswered(hrefOf(path, undefined, query as object)) as Answer<P> | undefined;
      return first && { pages: [first], pageParams: [null] };
    },
    queryFn: ({ pageParam, signal }) => ask(path, undefined, { ...query, after: pageParam } as Query<P>, signal),
    getNextPageParam: (last) => (last as Paged).next,
    refetchInterval: options.every ?? false,
    placeholderData: keepPreviousData as never,
  });
}
