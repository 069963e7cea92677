/** A little Markdown, as data: what models write most. Links and HTML stay the text that they are. */

export type Inline =
  | { readonly kind: "text" | "code"; readonly text: string }
  | { readonly kind: "strong" | "em"; readonly children: readonly Inline[] };

export type MarkdownBlock =
  | { readonly kind: "paragraph"; readonly children: readonly Inline[] }
  | { readonly kind: "heading"; readonly level: number; readonly children: readonly Inline[] }
  | { readonly kind: "code"; readonly language: string; readonly text: string }
  | { readonly kind: "list"; readonly ordered: boolean; readonly items: readonly (readonly Inline[])[] }
  | { readonly kind: "quote"; readonly children: readonly Inline[] }
  | { readonly kind: "table"; readonly rows: readonly (readonly (readonly Inline[])[])[] }
  | { readonly kind: "rule" };

const FENCE = /^\s*(```+|~~~+)\s*(\S*)/;
const ITEM = /^\s*(?:[-*+]|(\d+)[.)])\s+(.*)$/;

export function blocksOfMarkdown(text: string): MarkdownBlock[] {
  const lines = text.split("\n");
  const blocks: MarkdownBlock[] = [];
  let at = 0;
  const take = (fits: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && fits(lines[at]!)) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at]!;
    const fence = FENCE.exec(line);
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === "") at += 1;
    else if (fence) {
      at += 1;
      const inside = take((each) => !each.trim().startsWith(fence[1]!));
      at += 1;
      blocks.push({ kind: "code", language: fence[2]!, text: inside.join("\n") });
    } else if (heading) {
      at += 1;
      blocks.push({ kind: "heading", level: heading[1]!.length, children: inline(heading[2]!) });
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      at += 1;
      blocks.push({ kind: "rule" });
    } else if (item) {
      const items = take((each) => ITEM.test(each)).map((each) => inline(ITEM.exec(each)![2]!));
      blocks.push({ kind: "list", ordered: item[1] !== undefined, items });
    } else if (line.startsWith(">")) {
      blocks.push({
        kind: "quote",
        children: inline(
          take((each) => each.startsWith(">"))
            .map((each) => each.replace(/^>\s?/, ""))
            .join("\n"),
        ),
      });
    } else if (line.trim().startsWith("|")) {
      const rows = take((each) => each.trim().startsWith("|")).filter((each) => !/^[\s|:-]+$/.test(each));
      blocks.push({
        kind: "table",
        rows: rows.map((row) =>
          row
            .trim()
            .replace(/^\||\|$/g, "")
            .split("|")
            .map((cell) => inline(cell.trim())),
        ),
      });
    } else {
      const first = at;
      const paragraph = take(
        (each) =>
          at === first || (each.trim() !== "" && !FENCE.test(each) && !ITEM.test(each) && !/^#{1,6}\s/.test(each)),
      );
      blocks.push({ kind: "paragraph", children: inline(paragraph.join("\n")) });
    }
  }
  return blocks;
}

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|(?<![\w*])\*([^*\n]+)\*(?!\w)/g;

export function inline(text: string): Inline[] {
  const pieces: Inline[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) pieces.push({ kind: "text", text: text.slice(at, match.index) });
    at = match.index + match[0].length;
    if (match[1] !== undefined) pieces.push({ kind: "code", text: match[1] });
    else if (match[4] !== undefined) pieces.push({ kind: "em", children: inline(match[4]) });
    else pieces.push({ kind: "strong", children: inline((match[2] ?? match[3])!) });
  }
  if (at < text.length) pieces.push({ kind: "text", text: text.slice(at) });
  return pieces;
}
