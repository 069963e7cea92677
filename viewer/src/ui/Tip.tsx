import { type ReactElement, type ReactNode, useRef } from "react";
import { HoverTip } from "./HoverTip";

/** A short explanation beside what it explains, on hover and on focus. */
export function Tip({ text, children }: { text: ReactNode; children: ReactElement }) {
  const anchor = useRef<HTMLSpanElement>(null);
  return (
    <span ref={anchor} data-tip="" className="tipped">
      {children}
      <HoverTip container={anchor} render={() => text} />
    </span>
  );
}
