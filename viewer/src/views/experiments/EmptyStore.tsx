import { useText } from "../../text";

const EXAMPLE = `import rolltrace

rolltrace.init("my-project", "my-experiment")

@rolltrace.rollout_trace_op(kind="llm")
def generate(messages): ...

with rolltrace.rollout_trace_attr(sample_index=0, step=1, rollout_n=0) as trajectory:
    generate([{"role": "user", "content": "6 * 7?"}])
    trajectory.reward(1.0)`;

/** The first page of somebody's first store: what to type next. */
export function EmptyStore({ path }: { path: string }) {
  const t = useText();
  return (
    <div className="empty">
      <h1>{t.empty.storeTitle}</h1>
      <p>{t.empty.storeText}</p>
      <pre>{EXAMPLE}</pre>
      <pre>
        <span className="dim">{t.empty.demoComment}</span>
        {"\n"}rolltrace demo
      </pre>
      <p />
      <p className="traced">{t.empty.storePath(path)}</p>
    </div>
  );
}
