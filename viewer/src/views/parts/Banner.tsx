import { type ReactNode, useState } from "react";
import { useText } from "../../text";

interface Props {
  tone: "bad" | "warn" | "note";
  children: ReactNode;
  details?: readonly string[];
  onDismiss?: () => void;
}

export function Banner({ tone, children, details, onDismiss }: Props) {
  const t = useText();
  const [open, setOpen] = useState(false);
  return (
    <div className={`banner ${tone}`} role="status">
      <span className="grow">
        {children}
        {details && (
          <button type="button" className="textlink" aria-expanded={open} onClick={() => setOpen(!open)}>
            {t.banner.details}
          </button>
        )}
        {open && details && (
          <ul className="mono traced">
            {details.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
      </span>
      {onDismiss && (
        <button type="button" className="textlink" onClick={onDismiss}>
          {t.banner.dismiss}
        </button>
      )}
    </div>
  );
}
