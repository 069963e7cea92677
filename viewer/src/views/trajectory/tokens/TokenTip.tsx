import { measure } from "../../../model/format";
import { escaped, probability, segmentAt, type Tokens } from "../../../model/tokens";
import { type Catalogue, useText } from "../../../text";

function factsOf(tokens: Tokens, index: number, t: Catalogue): string[][] {
  const offset = index - tokens.start;
  const piece = tokens.pieces?.[offset];
  const logprob = tokens.logprobs[offset] ?? null;
  const mask = tokens.mask[offset];
  const segment = segmentAt(tokens.segments, index);
  const isResponse = segment?.kind === "response";
  return [
    [piece === undefined ? "" : escaped(piece), t.tokens.id(tokens.ids[offset] ?? -1)],
    [t.tokens.position(index), segment ? t.tokens.turn(segment.turn) : "", segment ? t.tokens[segment.kind] : ""],
    logprob === null ? [] : [t.trajectory.logprob(measure(logprob)), t.tokens.probability(probability(logprob))],
    [
      isResponse ? (mask === 0 ? t.tokens.masked : t.tokens.trained) : "",
      segment?.policy_version === null || segment === null ? "" : t.trajectory.policy(segment.policy_version),
    ],
  ].map((line) => line.filter((fact) => fact !== ""));
}

export function TokenTip({ tokens, index }: { tokens: Tokens; index: number }) {
  const t = useText();
  if (!(index >= tokens.start && index < tokens.start + tokens.ids.length)) return null;
  return (
    <div className="mono token-tip">
      {factsOf(tokens, index, t)
        .filter((line) => line.length > 0)
        .map((line, at) => (
          <div key={at}>{line.join(at === 0 ? "  " : " · ")}</div>
        ))}
    </div>
  );
}

/** The same for the token that the keyboard stands on: it stays, and is read out. */
export function TokenLine({ tokens, index }: { tokens: Tokens; index: number | null }) {
  const t = useText();
  return (
    <div className="token-line mono" aria-live="polite" hidden={index === null}>
      {index !== null && factsOf(tokens, index, t).flat().join(" · ")}
    </div>
  );
}
