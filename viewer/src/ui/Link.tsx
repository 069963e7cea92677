import type { AnchorHTMLAttributes, MouseEvent } from "react";
import { fromRoot } from "../root";
import { isThere } from "./place";
import { navigate, within } from "./url";

type Props = AnchorHTMLAttributes<HTMLAnchorElement> & { href: string; replace?: boolean };

/** A link inside the viewer. A click with a modifier opens a new tab as anywhere else. Text where it leads nowhere. */
export function Link({ href, replace, onClick, ...rest }: Props) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(href, { replace });
  };
  return isThere(href) ? <a href={fromRoot(within(href))} onClick={follow} {...rest} /> : <span {...rest} />;
}
