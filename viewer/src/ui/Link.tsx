import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { fromRoot } from "../root";
import { navigate } from "./url";

type Props = AnchorHTMLAttributes<HTMLAnchorElement> & { href: string; replace?: boolean };

/** A link inside the viewer. A click with a modifier opens a new tab as anywhere else. */
export function Link({ href, replace, onClick, ...rest }: Props) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(href, { replace });
  };
  return <a href={fromRoot(href)} onClick={follow} {...rest} />;
}
