import { Fragment } from "react";
import { numberOf } from "../../api/number";
import type { Elsewhere as Other, TrajectoryHead } from "../../api/types.gen";
import { baseOfStore } from "../../base";
import { measure } from "../../model/format";
import { comparePath } from "../../model/route";
import type { Range } from "../../model/scale";
import { bestAndWorst, stepNeighbour } from "../../model/siblings";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { Menu } from "../../ui/Menu";
import { Sparkline } from "../../ui/Sparkline";
import { navigate } from "../../ui/url";
import { recordPath } from "../parts/GroupRecords";
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
      <span className="dim wide-only">{t.trajectory.siblings}</span>
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
        {head.group_records.map((record) => (
          <Link
            key={record.trajectory_id}
            href={recordPath(record)}
            className="pill group"
            title={`${t.records.one}: ${record.name}`}
            aria-current={record.trajectory_id === row.trajectory_id ? "true" : undefined}
          >
            <span className="cut">
              <bdi>{record.name}</bdi>
            </span>
            <span className="dim mono">{t.ops.ops(record.ops)}</span>
          </Link>
        ))}
      </nav>
      <span className="key-pair wide-only" aria-hidden>
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
          {(before ?? after) && (
            <CompareLink head={head} id={(before ?? after)!.same_rollout} step={(before ?? after)!.step} />
          )}
        </span>
      )}
      <Elsewhere head={head} />
    </div>
  );
}

/** How many other experiments stand in the bar; the others are in a menu. */
const MOST_BESIDE = 2;

function Elsewhere({ head }: { head: TrajectoryHead }) {
  const t = useText();
  const [beside, others] = [head.elsewhere.slice(0, MOST_BESIDE), head.elsewhere.slice(MOST_BESIDE)];
  if (beside.length === 0) return null;
  return (
    <nav className="pills elsewhere" aria-label={t.trajectory.elsewhere}>
      <span className="dim wide-only">{t.trajectory.elsewhere}</span>
      {beside.map((each) => (
        <Fragment key={placeName(each)}>
          <Link
            className="pill"
            href={baseOfStore(each.store) + sameTab(each.trajectory_id)}
            title={`${placeName(each)} · ${t.trajectory.stepShort(each.step)}`}
          >
            <span className="cut">{placeName(each)}</span>
          </Link>
          <CompareLink head={head} id={qualified(each)} step={each.step} experiment={placeName(each)} />
        </Fragment>
      ))}
      {others.length > 0 && (
        <Menu
          label={`+${others.length}`}
          title={t.trajectory.elsewhere}
          choices={others.map((each) => ({
            label: placeName(each),
            detail: t.trajectory.stepShort(each.step),
            run: () => navigate(baseOfStore(each.store) + sameTab(each.trajectory_id)),
          }))}
        />
      )}
    </nav>
  );
}

function placeName({ store, experiment }: Other): string {
  return store === null ? experiment : `${store}: ${experiment}`;
}

/** An id that means the same on the page of any store. */
function qualified({ store, trajectory_id }: Other): string {
  return store === null ? trajectory_id : `${store}:${trajectory_id}`;
}

/** This trajectory beside the same sample elsewhere. */
function CompareLink({ head, id, step, experiment }: CompareLinkProps) {
  const t = useText();
  const label = t.trajectory.compareWith(experiment ?? t.trajectory.stepShort(step));
  return (
    <Link
      className="button small bare icon"
      href={comparePath([head.row.trajectory_id, id])}
      aria-label={label}
      title={label}
    >
      ⇄
    </Link>
  );
}

interface CompareLinkProps {
  head: TrajectoryHead;
  id: string;
  step: number | null;
  experiment?: string;
}

function StepLink({ label, sign, id }: { label: string; sign: string; id: string | undefined }) {
  if (!id) return <kbd aria-hidden>{sign}</kbd>;
  return (
    <Link href={sameTab(id)} aria-label={label} title={label}>
      <kbd>{sign}</kbd>
    </Link>
  );
}
