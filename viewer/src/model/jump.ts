/** Pages that a few letters could mean, beside what the server finds. */
import type { JumpCandidate } from "../api/types.gen";

export interface PageWord {
  readonly words: readonly string[];
  readonly href: string;
}

/** Pages one of whose names begins so. */
export function pagesLike(text: string, pages: readonly PageWord[]): JumpCandidate[] {
  const typed = text.trim().toLowerCase();
  if (typed === "") return [];
  return pages
    .filter((page) => page.words.some((word) => word.toLowerCase().startsWith(typed)))
    .map((page) => ({ kind: "page", label: page.words[0]!, detail: page.href, href: page.href }));
}
