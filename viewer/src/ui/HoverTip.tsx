import { type ReactNode, type RefObject, useEffect, useState } from "react";
import { createPortal } from "react-dom";

interface Shown {
  readonly key: string;
  readonly box: DOMRect;
}

/** One floating explanation for thousands of small things: those with `data-tip` inside the container. */
export function HoverTip(props: { container: RefObject<HTMLElement | null>; render: (key: string) => ReactNode }) {
  const [shown, setShown] = useState<Shown | null>(null);
  const { container } = props;
  useEffect(() => {
    const root = container.current;
    if (!root) return;
    const over = (event: Event) => {
      const target = event.target instanceof Element ? event.target.closest("[data-tip]") : null;
      setShown(target ? { key: target.getAttribute("data-tip")!, box: target.getBoundingClientRect() } : null);
    };
    const out = () => setShown(null);
    root.addEventListener("pointerover", over);
    root.addEventListener("focusin", over);
    root.addEventListener("pointerleave", out);
    root.addEventListener("focusout", out);
    root.addEventListener("scroll", out, { capture: true, passive: true });
    return () => {
      root.removeEventListener("pointerover", over);
      root.removeEventListener("focusin", over);
      root.removeEventListener("pointerleave", out);
      root.removeEventListener("focusout", out);
      root.removeEventListener("scroll", out, { capture: true });
    };
  }, [container]);
  if (!shown) return null;
  const content = props.render(shown.key);
  if (!content) return null;
  const below = shown.box.bottom + 140 < window.innerHeight;
  const left = Math.max(8, Math.min(shown.box.left, window.innerWidth - 330));
  return createPortal(
    <div
      className="tip hover-tip"
      role="tooltip"
      style={{
        position: "fixed",
        left,
        top: below ? shown.box.bottom + 6 : undefined,
        bottom: below ? undefined : window.innerHeight - shown.box.top + 6,
      }}
    >
      {content}
    </div>,
    document.body,
  );
}
