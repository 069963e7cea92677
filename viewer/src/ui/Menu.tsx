import { type ReactNode, useRef, useState } from "react";
import { later } from "./later";
import { script } from "./script";

export interface Choice {
  readonly label: ReactNode;
  readonly detail?: ReactNode;
  readonly checked?: boolean;
  readonly run: () => void;
}

const list = script(() => import("./MenuList"));
const MenuList = later(list);

/** A button that opens a list of actions, or of things to switch on and off. */
export function Menu(props: {
  label: ReactNode;
  title?: string;
  className?: string;
  choices: readonly Choice[];
  stay?: boolean;
}) {
  const button = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        ref={button}
        type="button"
        className={props.className ?? "button small bare"}
        aria-label={props.title}
        aria-haspopup="menu"
        aria-expanded={open}
        title={props.title}
        onPointerEnter={list.load}
        onFocus={list.load}
        onClick={() => setOpen(!open)}
        onKeyDown={(event) => {
          if (event.key !== "ArrowDown") return;
          event.preventDefault();
          setOpen(true);
        }}
      >
        {props.label}
      </button>
      {open && (
        <MenuList
          button={button}
          title={props.title}
          choices={props.choices}
          stay={props.stay}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}
