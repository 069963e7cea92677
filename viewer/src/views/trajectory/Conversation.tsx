import { useAnswer } from "../../api/hooks";
import { IS_FILE } from "../../api/source";
import type { Message, Rewrite, TrajectoryHead } from "../../api/types.gen";
import { namesOf } from "../../model/labels";
import { messageOfOp } from "../../model/messages";
import { useText } from "../../text";
import { setQuery, useUrl } from "../../ui/url";
import { VirtualFlow } from "../../ui/VirtualFlow";
import { ProblemPanel } from "../parts/Problem";
import { MessageView } from "./MessageView";

/** What was said, as it was produced or as one model call saw it: a virtual list of messages of any height. */
export function Conversation({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const id = head.row.trajectory_id;
  const url = useUrl();
  const turn = Number.parseInt(url.query.get("seen_by") ?? "", 10);
  const seenBy = Number.isNaN(turn) ? undefined : turn;
  const answer = useAnswer("/api/trajectory/{trajectory_id}/conversation", {
    path: { trajectory_id: id },
    query: seenBy === undefined ? undefined : { seen_by: seenBy },
    every: head.row.status === "running" ? 3000 : false,
  });
  const messages = answer.data?.messages ?? [];
  const op = url.anchor.get("op");
  const shown = messageOfOp(messages, head.outline, op);
  if (answer.error && !answer.data)
    return <ProblemPanel problem={answer.error} onRetry={() => void answer.refetch()} />;
  if (answer.data && messages.length === 0)
    return (
      <div className="empty">
        <h1>{t.empty.noConversation}</h1>
        <p>{t.empty.noConversationText}</p>
      </div>
    );
  return (
    <>
      {seenBy !== undefined && (
        <div className="seen-by" role="status">
          {t.trajectory.seenBy(seenBy)}
          <button type="button" className="button small" onClick={() => setQuery({ seen_by: null })}>
            {t.trajectory.asProduced}
          </button>
        </div>
      )}
      <VirtualFlow
        count={messages.length}
        estimate={120}
        label={t.trajectory.tabs.conversation}
        itemKey={(index) => `${id} ${seenBy ?? ""} ${messages[index]!.index}`}
        render={(index) => {
          const message = messages[index]!;
          if (message.rewrite) return <RewriteView message={message} rewrite={message.rewrite} />;
          return (
            <MessageView
              message={message}
              trajectoryId={id}
              seenBy={seenBy}
              here={index === shown}
              labels={message.op_id ? namesOf(head.labels, message.op_id) : []}
            />
          );
        }}
        shown={shown}
      />
    </>
  );
}

/** Where a prompt changed the history that it repeats. */
function RewriteView({ message, rewrite }: { message: Message; rewrite: Rewrite }) {
  const t = useText();
  return (
    <div className="rewrite" role="note">
      <span>{t.trajectory.rewrite(rewrite)}</span>
      {message.turn !== null && !IS_FILE && (
        <button type="button" className="button small bare" onClick={() => setQuery({ seen_by: `${message.turn}` })}>
          {t.trajectory.seeAs(message.turn)}
        </button>
      )}
    </div>
  );
}
