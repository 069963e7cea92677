import { useState } from "react";
import { ask } from "../../api/client";
import { numberOf } from "../../api/number";
import { IS_FILE } from "../../api/source";
import type { Message, Part } from "../../api/types.gen";
import { measure, seconds } from "../../model/format";
import { isOddEnd, plainText } from "../../model/messages";
import { fromRoot } from "../../root";
import { useText } from "../../text";
import { CopyButton } from "../../ui/CopyButton";
import { hrefWith } from "../../ui/url";
import { LabelChips } from "../labels/LabelChips";
import { FlagChips } from "../parts/Flags";
import { CallView } from "./CallView";
import { PartView } from "./PartView";

interface Props {
  message: Message;
  trajectoryId: string;
  /** The turn whose view of the conversation is shown, if it is not told as it was produced. */
  seenBy?: number | undefined;
  here?: boolean;
  /** Names of the labels that people gave its turn. */
  labels?: readonly string[];
}

/** One message with its tool calls, each call paired with what came back. */
export function MessageView({ message: bounded, trajectoryId, seenBy, here, labels = [] }: Props) {
  const t = useText();
  const [whole, setWhole] = useState<Message | null>(null);
  const [markdown, setMarkdown] = useState(false);
  const message = whole ?? bounded;
  const load = async () => {
    const answer = await ask(
      "/api/trajectory/{trajectory_id}/message/{index}",
      { trajectory_id: trajectoryId, index: String(bounded.index) },
      seenBy === undefined ? undefined : { seen_by: seenBy },
    );
    setWhole(answer);
    return answer;
  };
  const hasText = message.parts.some((part) => part.kind === "text" && part.text);
  return (
    <article className={`message${here ? " here" : ""}`} aria-label={message.role}>
      <header className="message-head">
        <bdi className={`role ${message.role === "assistant" ? "model" : ""}`}>{message.role}</bdi>
        {message.name && <bdi className="dim">{message.name}</bdi>}
        <Facts message={message} />
        <FlagChips flags={message.flags} />
        <LabelChips labels={labels} />
        <span className="message-actions">
          {hasText && (
            <button
              type="button"
              className="button small bare"
              aria-pressed={markdown}
              onClick={() => setMarkdown(!markdown)}
            >
              {markdown ? t.trajectory.plain : t.trajectory.markdown}
            </button>
          )}
          <CopyButton
            text={async () => plainText(isCut(message) ? await load() : message)}
            label={t.copy.copy}
            done={t.copy.copied}
          />
          {message.op_id && !IS_FILE && (
            <CopyButton
              text={() => location.origin + fromRoot(hrefWith({}, { op: message.op_id }))}
              label={t.copy.link}
              done={t.copy.copied}
            />
          )}
        </span>
      </header>
      {message.parts.map((part, index) => (
        <PartView key={index} part={part} markdown={markdown} onLoad={load} />
      ))}
      {message.calls.map((call, index) => (
        <CallView key={index} call={call} onLoad={load} />
      ))}
    </article>
  );
}

function Facts({ message }: { message: Message }) {
  const t = useText().trajectory;
  const logprob = numberOf(message.logprob_mean);
  const reason = isOddEnd(message.finish_reason);
  const facts = [
    message.tokens === null ? null : t.tokensUnit(message.tokens),
    message.duration_s === null ? null : seconds(message.duration_s),
    logprob === null ? null : t.logprob(measure(logprob)),
    message.policy_version === null ? null : t.policy(message.policy_version),
    reason ? t.finish(message.finish_reason!) : null,
  ];
  return (
    <>
      {facts
        .filter((fact) => fact !== null)
        .map((fact) => (
          <span key={fact} className="mono dim">
            {fact}
          </span>
        ))}
    </>
  );
}

function isCut(message: Message): boolean {
  const cut = (part: Part) => (part.chars ?? 0) > Array.from(part.text ?? "").length;
  return message.parts.some(cut) || message.calls.some((call) => cut(call.arguments) || (call.result ?? []).some(cut));
}
