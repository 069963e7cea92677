/** What a page asks first is asked while its scripts still load; whoever asks the same then takes that answer, once. */

import { request } from "./source";

const asked = new Map<string, ReturnType<typeof request>>();

export function askEarly(hrefs: readonly string[]): void {
  for (const href of hrefs) {
    const answer = request(href);
    answer.catch(() => undefined); // whoever takes it is told
    asked.set(href, answer);
  }
}

export function takeEarly(href: string): ReturnType<typeof request> | undefined {
  const answer = asked.get(href);
  asked.delete(href);
  return answer;
}
