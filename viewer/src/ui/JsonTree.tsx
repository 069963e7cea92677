import { useState } from "react";
import { cutOf, nodeOf, type Path, preview } from "../model/json";
import "./json.css";

export interface TreeWords {
  readonly items: (n: number) => string;
  readonly more: string;
  readonly expand: string;
  readonly collapse: string;
}

interface Props {
  value: unknown;
  words: TreeWords;
  /** Reads on where something was cut: the value from `offset` on. */
  readMore?: (path: Path, offset: number) => Promise<unknown>;
  label?: string;
  /** How many levels are open at first. */
  open?: number;
}

const SHOWN_AT_ONCE = 100;

/** A recorded value as a tree that unfolds; never more on the page than was asked for. */
export function JsonTree({ value, words, readMore, label, open = 2 }: Props) {
  return (
    <div className="json mono" role="tree" aria-label={label}>
      <Entry name={null} value={value} path={[]} depth={0} open={open} words={words} readMore={readMore} />
    </div>
  );
}

interface EntryProps {
  name: string | number | null;
  value: unknown;
  path: Path;
  depth: number;
  open: number;
  words: TreeWords;
  readMore: Props["readMore"];
}

function Entry(props: EntryProps) {
  const { name, path, depth, words, readMore } = props;
  const [value, setValue] = useState(props.value);
  const [seen, setSeen] = useState(props.value);
  if (seen !== props.value) {
    setSeen(props.value);
    setValue(props.value);
  }
  const node = nodeOf(value);
  const [open, setOpen] = useState(depth < props.open && (node.kind === "leaf" || node.size <= 30 || depth === 0));
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const cut = cutOf(value);
  const more = readMore && cut ? () => void readMore(path, 0).then(setValue, () => undefined) : undefined;
  const key = name === null ? null : <span className="j-key">{name}: </span>;
  if (node.kind === "leaf")
    return (
      <div className="j-line" role="treeitem" tabIndex={-1}>
        {key}
        <span className={`j-${node.type} traced`}>
          {node.type === "text" && depth > 0 ? quoted(node.text) : node.text}
        </span>
        {cut && <More words={words} rest={cut.size - node.text.length} onMore={more} />}
      </div>
    );
  if (node.size === 0)
    return (
      <div className="j-line" role="treeitem" tabIndex={-1}>
        {key}
        <span className="dim">{node.open === "[" ? "[]" : "{}"}</span>
      </div>
    );
  return (
    <div role="treeitem" aria-expanded={open} tabIndex={-1}>
      <div className="j-line">
        <button
          type="button"
          className="j-toggle"
          aria-label={`${open ? words.collapse : words.expand}${name === null ? "" : ` ${name}`}`}
          onClick={() => setOpen(!open)}
        >
          {open ? "▾" : "▸"}
        </button>
        {key}
        {open ? (
          <span className="dim">{words.items(node.size)}</span>
        ) : (
          <span className="j-preview">{preview(value)}</span>
        )}
      </div>
      {open && (
        <div className="j-inside" role="group">
          {node.entries.slice(0, shown).map(([entry, item]) => (
            <Entry {...props} key={entry} name={entry} value={item} path={[...path, entry]} depth={depth + 1} />
          ))}
          {node.entries.length > shown ? (
            <More
              words={words}
              rest={node.entries.length - shown}
              onMore={() => setShown(shown + 10 * SHOWN_AT_ONCE)}
            />
          ) : (
            cut && <More words={words} rest={cut.size - node.entries.length} onMore={more} />
          )}
        </div>
      )}
    </div>
  );
}

function More({ words, rest, onMore }: { words: TreeWords; rest: number; onMore?: () => void }) {
  if (!onMore) return <span className="chip quiet">… +{rest.toLocaleString("en-US")}</span>;
  return (
    <button type="button" className="textlink" onClick={onMore}>
      {words.more} (+{rest.toLocaleString("en-US")})
    </button>
  );
}

/** Text of one line in quotes; text of several lines as it stands. */
function quoted(text: string): string {
  return text.includes("\n") ? text : JSON.stringify(text);
}
