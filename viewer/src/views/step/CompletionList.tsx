import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";
import { count } from "../../model/format";
import { useText } from "../../text";
import type { Chosen, Completion } from "./completion";
import { placeOf } from "./FilterText";

interface Props {
  id: string;
  completion: Completion;
  mirror: RefObject<HTMLDivElement | null>;
  onChoose: (chosen: Chosen) => void;
}

export function CompletionList({ id, completion, mirror, onChoose }: Props) {
  const t = useText();
  const list = useRef<HTMLDivElement>(null);
  const [left, setLeft] = useState(0);
  useLayoutEffect(() => {
    const box = mirror.current;
    if (box) setLeft(Math.max(0, Math.min(placeOf(box, completion.start) - box.scrollLeft, box.clientWidth - 320)));
  }, [mirror, completion.start]);
  useEffect(() => {
    list.current?.querySelector(`#${CSS.escape(`${id}-${completion.active}`)}`)?.scrollIntoView({ block: "nearest" });
  }, [id, completion.active]);
  return (
    <div
      ref={list}
      className="pop completions"
      role="listbox"
      tabIndex={-1}
      id={`${id}-list`}
      aria-label={t.step.completions}
      style={{ left }}
    >
      {completion.options.map((option, index) => (
        <div
          key={option.text}
          id={`${id}-${index}`}
          className="item"
          role="option"
          aria-selected={index === completion.active}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(completion.choose(option))}
        >
          <code className={`w-${option.kind === "value" ? "text" : option.kind}`}>{option.text}</code>
          <span className="detail cut">
            {option.count !== undefined && option.count !== null ? count(option.count) : option.detail}
          </span>
        </div>
      ))}
    </div>
  );
}
