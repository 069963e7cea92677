import { numberOf } from "../../api/number";
import type { TrajectoryHead } from "../../api/types.gen";
import { measure } from "../../model/format";
import { comparePath } from "../../model/route";
import type { Range } from "../../model/scale";
import { bestAndWorst, stepNeighbour } from "../../model/siblings";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { Sparkline } from "../../ui/Sparkline";
import { RewardSquare } from "../parts/Reward";
import { sameTab } from "./keys";

const SIGNS: Record<string, string> = { error: "×", interrupted: "!", cancelled: "–", running: "…" };

/** The other rollouts of the sample, and the same sample over the steps. */
export function SiblingBar({ head, range }: { head: TrajectoryHead; range: Range | null }) {
  const t = useText();
  const { row } = head;
  const pair = bestAndWorst(head.siblings);
  const [before, after] = [stepNeighbour(head.over_steps, row.step, -1), stepNeighbour(head.over_steps, row.step, 1)];
  return (
    <div className="siblings">
      <span className="dim">{t.trajectory.siblings}</span>
      <nav className="pills" aria-label={t.trajectory.siblings}>
        {head.siblings.map((cell) => {
          const here = cell.trajectory_id === row.trajectory_id;
          return (
            <Link
              key={cell.trajectory_id}
              href={sameTab(cell.trajectory_id)}
              className="pill mono"
              aria-current={here ? "true" : undefined}
            >
              <RewardSquare cell={{ reward: cell.reward, status: "ok" }} range={range} small />
              <span>n{cell.rollout_n ?? "?"}</span>
              <span className="dim">{measure(numberOf(cell.reward))}</span>
              {SIGNS[cell.status] && (
                <span className="err">
                  <span aria-hidden>{SIGNS[cell.status]}</span>
                  <span className="sr">{t.status[cell.status] ?? cell.status}</span>
                </span>
              )}
            </Link>
          );
        })}
      </nav>
      <span className="key-pair" aria-hidden>
        <kbd>h</kbd>
        <kbd>l</kbd>
      </span>
      {pair && (
        <Link className="button small bare" href={comparePath(pair)} title={t.trajectory.bestWorst}>
          ⇄ <span className="wide-only">{t.trajectory.bestWorst}</span>
        </Link>
      )}
      {head.over_steps.length > 1 && row.sample_index !== null && (
        <span className="over-steps">
          <span className="dim cut wide-only">{t.trajectory.overSteps(row.sample_index)}</span>
          <Sparkline
            values={head.over_steps.map((each) => numberOf(each.mean))}
            at={head.over_steps.findIndex((each) => each.step === row.step)}
            label={t.trajectory.overSteps(row.sample_index)}
          />
          <StepLink label={t.trajectory.previousStep} sign="[" id={before?.same_rollout} />
          <StepLink label={t.trajectory.nextStep} sign="]" id={after?.same_rollout} />
        </span>
      )}
      {head.elsewhere.length > 0 && (
        <nav className="pills" aria-label={t.trajectory.elsewhere}>
          <span className="dim wide-only">{t.trajectory.elsewhere}</span>
          {head.elsewhere.map((each) => (
            <Link key={each.experiment} className="pill" href={sameTab(each.trajectory_id)}>
              <span className="cut">{each.experiment}</span>
              {each.step !== row.step && <span className="dim">{t.trajectory.stepShort(each.step)}</span>}
            </Link>
          ))}
        </nav>
      )}
    </div>
  );
}

function StepLink({ label, sign, id }: { label: string; sign: string; id: string | undefined }) {
  if (!id) return <kbd aria-hidden>{sign}</kbd>;
  return (
    <Link href={sameTab(id)} aria-label={label} title={label}>
      <kbd>{sign}</kbd>
    </Link>
  );
}
