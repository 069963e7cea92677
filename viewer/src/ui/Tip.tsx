import * as Ariakit from "@ariakit/react";
import type { ReactElement, ReactNode } from "react";

/** A short explanation beside what it explains, on hover and on focus. */
export function Tip({ text, children }: { text: ReactNode; children: ReactElement }) {
  return (
    <Ariakit.TooltipProvider timeout={350} placement="bottom">
      <Ariakit.TooltipAnchor render={children} />
      <Ariakit.Tooltip className="tip" gutter={6} unmountOnHide>
        {text}
      </Ariakit.Tooltip>
    </Ariakit.TooltipProvider>
  );
}
