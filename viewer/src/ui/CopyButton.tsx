import { useEffect, useState } from "react";
import { copy } from "./clipboard";

interface Props {
  text: string | (() => string | Promise<string>);
  label: string;
  done: string;
  className?: string;
}

export function CopyButton({ text, label, done, className = "button small bare" }: Props) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const run = async () => setCopied(await copy(typeof text === "string" ? text : await text()));
  return (
    <button type="button" className={className} onClick={run} aria-live="polite">
      {copied ? done : label}
    </button>
  );
}
