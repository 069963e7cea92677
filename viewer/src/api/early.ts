/** What a page asks first is asked while its scripts still load; whoever asks the same then takes that answer, once. */

const asked = new Map<string, Promise<Response>>();

export function request(href: string, signal?: AbortSignal): Promise<Response> {
  return fetch(href, { signal, headers: { accept: "application/json" }, credentials: "same-origin" });
}

export function askEarly(hrefs: readonly string[]): void {
  for (const href of hrefs) {
    const answer = request(href);
    answer.catch(() => undefined); // whoever takes it is told
    asked.set(href, answer);
  }
}

export function takeEarly(href: string): Promise<Response> | undefined {
  const answer = asked.get(href);
  asked.delete(href);
  return answer;
}
