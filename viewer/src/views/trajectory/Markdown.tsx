import { Fragment } from "react";
import { blocksOfMarkdown, type Inline, type MarkdownBlock } from "../../model/markdown";
import { Code } from "./PartView";

export default function Markdown({ text }: { text: string }) {
  return (
    <div className="markdown">
      {blocksOfMarkdown(text).map((block, index) => (
        <Block key={index} block={block} />
      ))}
    </div>
  );
}

function Block({ block }: { block: MarkdownBlock }) {
  switch (block.kind) {
    case "heading":
      return (
        <p className="md-heading">
          <Spans of={block.children} />
        </p>
      );
    case "paragraph":
      return (
        <p>
          <Spans of={block.children} />
        </p>
      );
    case "quote":
      return (
        <blockquote>
          <Spans of={block.children} />
        </blockquote>
      );
    case "code":
      return (
        <pre className="codeblock">
          <Code text={block.text} />
        </pre>
      );
    case "list": {
      const items = block.items.map((item, index) => (
        <li key={index}>
          <Spans of={item} />
        </li>
      ));
      return block.ordered ? <ol>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return (
        <table className="md-table">
          <tbody>
            {block.rows.map((row, index) => (
              <tr key={index}>
                {row.map((cell, column) => (
                  <td key={column}>
                    <Spans of={cell} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      );
    case "rule":
      return <hr />;
  }
}

function Spans({ of }: { of: readonly Inline[] }) {
  return of.map((piece, index) => {
    if ("text" in piece)
      return piece.kind === "code" ? (
        <code key={index}>{piece.text}</code>
      ) : (
        <Fragment key={index}>{piece.text}</Fragment>
      );
    const Tag = piece.kind;
    return (
      <Tag key={index}>
        <Spans of={piece.children} />
      </Tag>
    );
  });
}
