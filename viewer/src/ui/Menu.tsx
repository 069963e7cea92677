import * as Ariakit from "@ariakit/react";
import type { ReactNode } from "react";

export interface Choice {
  readonly label: ReactNode;
  readonly detail?: ReactNode;
  readonly checked?: boolean;
  readonly run: () => void;
}

/** A button that opens a list of actions, or of things to switch on and off. */
export function Menu(props: {
  label: ReactNode;
  title?: string;
  className?: string;
  choices: readonly Choice[];
  stay?: boolean;
}) {
  return (
    <Ariakit.MenuProvider>
      <Ariakit.MenuButton
        className={props.className ?? "button small bare"}
        aria-label={props.title}
        title={props.title}
      >
        {props.label}
      </Ariakit.MenuButton>
      <Ariakit.Menu className="pop" gutter={4} unmountOnHide portal aria-label={props.title}>
        {props.choices.map((choice, index) => (
          <Ariakit.MenuItem key={index} className="item" hideOnClick={!props.stay} onClick={choice.run}>
            {choice.checked !== undefined && <span aria-hidden>{choice.checked ? "✓" : "\u2007"}</span>}
            <span>{choice.label}</span>
            {choice.checked !== undefined && <span className="sr">{choice.checked ? "✓" : ""}</span>}
            {choice.detail && <span className="detail">{choice.detail}</span>}
          </Ariakit.MenuItem>
        ))}
      </Ariakit.Menu>
    </Ariakit.MenuProvider>
  );
}
