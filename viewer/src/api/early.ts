/** What a page asks first is asked while its scripts still load; whoever asks the same then takes that answer, once. */

interface Early {
  readonly answer: Promise<unknown>;
  /** The answer, once it is there. */
  data?: unknown;
}

const asked = new Map<string, Early>();

/** Asks, and comes back when all is answered, whatever the answers are. */
export async function askEarly(hrefs: readonly string[], request: (href: string) => Promise<unknown>): Promise<void> {
  await Promise.allSettled(
    hrefs.map(async (href) => {
      const early: Early = { answer: request(href) };
      asked.set(href, early);
      early.data = await early.answer;
    }),
  );
}

/** An answer that was asked for early, perhaps still on its way. */
export function takeEarly(href: string): Promise<unknown> | undefined {
  const early = asked.get(href);
  asked.delete(href);
  return early?.answer;
}

/** An answer that is there already: a page can be drawn with it at once. */
export function takeAnswered(href: string): unknown {
  const data = asked.get(href)?.data;
  if (data !== undefined) asked.delete(href);
  return data;
}
