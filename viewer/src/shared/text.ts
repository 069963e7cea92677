/** Words that only a shared file says; all others are the viewer's own. */
import { useLanguage } from "../text";

const WORDS = {
  en: { start: "To the first page of this file", from: (when: string) => `as of ${when}` },
  zh: { start: "回到此文件的首页", from: (when: string) => `截至 ${when}` },
} as const;

export function useSharedText(): (typeof WORDS)["en" | "zh"] {
  return WORDS[useLanguage()[0]];
}
