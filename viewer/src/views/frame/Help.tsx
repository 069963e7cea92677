import * as Ariakit from "@ariakit/react";
import { Fragment } from "react";
import { useText } from "../../text";
import { useActiveBindings } from "../../ui/keys";

/** The keys that work on this page, the page's own first. */
export default function Help({ onClose }: { onClose: () => void }) {
  const t = useText();
  const layers = useActiveBindings();
  const seen = new Set<string>();
  const bindings = [...layers]
    .reverse()
    .flat()
    .filter((binding) => !seen.has(binding.keys) && seen.add(binding.keys));
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
        <Ariakit.DialogDismiss className="button bare small" aria-label={t.frame.close}>
          <kbd>Esc</kbd>
        </Ariakit.DialogDismiss>
      </div>
      <dl>
        {bindings.map((binding) => (
          <div key={binding.keys}>
            <dt>
              {binding.keys.split(" ").map((key, index) => (
                <Fragment key={key + index}>
                  <kbd>{key.replace("mod+", "Ctrl ")}</kbd>
                </Fragment>
              ))}
            </dt>
            <dd>{binding.label}</dd>
          </div>
        ))}
      </dl>
    </Ariakit.Dialog>
  );
}
