import { useAnswer } from "../../api/hooks";
import type { TrajectoryHead } from "../../api/types.gen";
import { namesOf } from "../../model/labels";
import { messageOfOp } from "../../model/messages";
import { useText } from "../../text";
import { useUrl } from "../../ui/url";
import { VirtualFlow } from "../../ui/VirtualFlow";
import { ProblemPanel } from "../parts/Problem";
import { MessageView } from "./MessageView";

/** What was said: a virtual list of messages of any height. */
export function Conversation({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const id = head.row.trajectory_id;
  const answer = useAnswer("/api/trajectory/{trajectory_id}/conversation", {
    path: { trajectory_id: id },
    every: head.row.status === "running" ? 3000 : false,
  });
  const messages = answer.data?.messages ?? [];
  const op = useUrl().anchor.get("op");
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
    <VirtualFlow
      count={messages.length}
      estimate={120}
      label={t.trajectory.tabs.conversation}
      itemKey={(index) => `${id} ${messages[index]!.index}`}
      render={(index) => (
        <MessageView
          message={messages[index]!}
          trajectoryId={id}
          here={index === shown}
          labels={messages[index]!.op_id ? namesOf(head.labels, messages[index]!.op_id) : []}
        />
      )}
      shown={shown}
    />
  );
}
