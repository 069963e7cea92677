import * as Ariakit from "@ariakit/react";
import { useText } from "../../text";
import { useActiveBindings } from "../../ui/keys";

const SIGNS: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→" };

/** The keys that work on this page, the page's own first. */
export default function Help({ onClose }: { onClose: () => void }) {
  const t = useText();
  const layers = useActiveBindings();
  const seen = new Set<string>();
  const keysFor = new Map<string, string[]>();
  for (const { keys, label } of [...layers].reverse().flat()) {
    if (seen.has(keys)) continue;
    seen.add(keys);
    keysFor.set(label, [...(keysFor.get(label) ?? []), keys]);
  }
  return (
    <Ariakit.Dialog
      open
      onClose={onClose}
      className="dialog help"
      backdrop={<div className="backdrop" />}
      unmountOnHide
    >
      <div className="row help-head">
        <Ariakit.DialogHeading className="grow">{t.frame.keys}</Ariakit.DialogHeading>
        <Ariakit.DialogDismiss className="button bare small" aria-label={`Esc: ${t.frame.close}`}>
          <kbd>Esc</kbd>
        </Ariakit.DialogDismiss>
      </div>
      <dl>
        {[...keysFor].map(([label, several]) => (
          <div key={label}>
            <dt>
              {several.map((keys) => (
                <span key={keys} className="key-pair">
                  {keys.split(" ").map((key, index) => (
                    <kbd key={key + index}>{SIGNS[key] ?? key.replace("mod+", "Ctrl ")}</kbd>
                  ))}
                </span>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Ariakit.Dialog>
  );
}
