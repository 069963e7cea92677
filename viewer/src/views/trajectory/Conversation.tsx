import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { useAnswer } from "../../api/hooks";
import type { TrajectoryHead } from "../../api/types.gen";
import { messageOfOp } from "../../model/messages";
import { useText } from "../../text";
import { useUrl } from "../../ui/url";
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
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: messages.length,
    getScrollElement: () => box.current,
    estimateSize: () => 120,
    overscan: 6,
    getItemKey: (index) => `${id} ${messages[index]!.index}`,
  });
  const op = useUrl().anchor.get("op");
  const shown = messageOfOp(messages, head.outline, op);
  useEffect(() => {
    if (shown >= 0) virtual.scrollToIndex(shown, { align: "start" });
  }, [shown, virtual]);
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
    <div
      className="conversation"
      ref={box}
      role="log"
      aria-label={t.trajectory.tabs.conversation}
      aria-live="off"
      tabIndex={-1}
    >
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.key}
            ref={virtual.measureElement}
            data-index={item.index}
            className="virtual-item"
            style={{ transform: `translateY(${item.start}px)` }}
          >
            <MessageView message={messages[item.index]!} trajectoryId={id} here={item.index === shown} />
          </div>
        ))}
      </div>
    </div>
  );
}
