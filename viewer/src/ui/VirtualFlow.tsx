import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useRef } from "react";

interface Props {
  count: number;
  /** A guess of their height in pixels, until they are drawn. */
  estimate: number;
  label: string;
  itemKey: (index: number) => string;
  render: (index: number) => ReactNode;
  /** Scrolled to; -1 for none. */
  shown?: number;
}

/** Things of any height one below the other, of which only those in sight are drawn. */
export function VirtualFlow({ count, estimate, label, itemKey, render, shown = -1 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => estimate,
    overscan: 4,
    getItemKey: itemKey,
  });
  useEffect(() => {
    if (shown >= 0) virtual.scrollToIndex(shown, { align: "start" });
  }, [shown, virtual]);
  return (
    <div className="conversation" ref={box} role="log" aria-label={label} aria-live="off" tabIndex={-1}>
      <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.key}
            ref={virtual.measureElement}
            data-index={item.index}
            className="virtual-item"
            style={{ transform: `translateY(${item.start}px)` }}
          >
            {render(item.index)}
          </div>
        ))}
      </div>
    </div>
  );
}
