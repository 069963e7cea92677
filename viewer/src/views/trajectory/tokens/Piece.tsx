import type { ReactNode } from "react";

/** A line's end is seen, so that it can be hovered; a token inside of a character is a dot. */
export function Piece({ text }: { text: string }) {
  if (text === "") return <span className="dot-piece">·</span>;
  const inside = text.replace(/\n+$/, "");
  const ends = text.length - inside.length;
  return (
    <>
      {inside}
      {ends > 0 && <span className="newline">{"↵".repeat(ends)}</span>}
    </>
  );
}

/** The same for one of many: most are plain text, and need no component. */
export function shownPiece(text: string): ReactNode {
  return text === "" || text.endsWith("\n") ? <Piece text={text} /> : text;
}

/** The line ends themselves come after the token's box, which would else reach into the next line. */
export function lineEnds(piece: string | null): string {
  return piece === null ? "" : (/\n+$/.exec(piece)?.[0] ?? "");
}
