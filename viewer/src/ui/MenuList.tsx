import * as Ariakit from "@ariakit/react";
import { type RefObject, useEffect } from "react";
import type { Choice } from "./Menu";

interface Props {
  button: RefObject<HTMLButtonElement | null>;
  title?: string;
  choices: readonly Choice[];
  stay?: boolean;
  onClose: () => void;
}

/** The open list of a `Menu`. */
export default function MenuList({ button, title, choices, stay, onClose }: Props) {
  const menu = Ariakit.useMenuStore({ open: true, setOpen: (open) => !open && onClose() });
  useEffect(() => {
    menu.setAnchorElement(button.current);
    menu.setDisclosureElement(button.current);
  }, [menu, button]);
  return (
    <Ariakit.Menu store={menu} className="pop" gutter={4} portal aria-label={title} autoFocusOnShow>
      {choices.map((choice, index) => (
        <Ariakit.MenuItem key={index} className="item" hideOnClick={!stay} onClick={choice.run}>
          {choice.checked !== undefined && <span aria-hidden>{choice.checked ? "✓" : "\u2007"}</span>}
          <span>{choice.label}</span>
          {choice.checked !== undefined && <span className="sr">{choice.checked ? "✓" : ""}</span>}
          {choice.detail && <span className="detail">{choice.detail}</span>}
        </Ariakit.MenuItem>
      ))}
    </Ariakit.Menu>
  );
}
