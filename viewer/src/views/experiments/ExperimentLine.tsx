import { numbersOf } from "../../api/number";
import type { ExperimentRow } from "../../api/types.gen";
import { baseOfStore } from "../../base";
import { bytes, coarse, count, MISSING, measure, seconds } from "../../model/format";
import { experimentPath, stepPath } from "../../model/route";
import { useText } from "../../text";
import { Link } from "../../ui/Link";
import { Sparkline } from "../../ui/Sparkline";
import { Tip } from "../../ui/Tip";
import { FlagChip } from "../parts/Flags";

interface Props {
  row: ExperimentRow;
  reward: number | null;
  here: boolean;
  selected: boolean;
  nowNs: number;
  onSelect: () => void;
}

const FLAGS_SHOWN = 3;

export function ExperimentLine({ row, reward, here, selected, nowNs, onSelect }: Props) {
  const t = useText();
  const flags = Object.entries(row.flags).sort(([, a], [, b]) => b - a);
  const since = Math.max(0, (nowNs - row.end_ns) / 1e9);
  const base = baseOfStore(row.store);
  const name = [row.store, row.project, row.experiment].filter((part) => part !== null).join(" / ");
  return (
    <tr className={here ? "here" : undefined} aria-selected={selected}>
      <td className="check">
        <input type="checkbox" checked={selected} onChange={onSelect} aria-label={t.experiments.select(name)} />
      </td>
      <td className="name-cell">
        <Link href={base + experimentPath(row.project, row.experiment)} title={name}>
          {row.store !== null && (
            <>
              <span className="chip quiet">
                <bdi>{row.store}</bdi>
              </span>{" "}
            </>
          )}
          <span className="dim">
            <bdi>{row.project}</bdi> /{" "}
          </span>
          <bdi>{row.experiment}</bdi>
        </Link>
      </td>
      <td>
        <Tip text={t.experiments.lastSeen(seconds(since))}>
          <span className={`state-word ${row.state}`}>
            <span
              className={`dot${row.state === "recording" ? " on pulse" : row.state === "interrupted" ? " bad" : ""}`}
            />
            {t.experiments.states[row.state]}
            {row.running > 0 && <span className="dim"> · {t.frame.running(row.running)}</span>}
            {row.state !== "recording" && <span className="dim wide-only"> · {t.experiments.ago(coarse(since))}</span>}
          </span>
        </Tip>
      </td>
      <td className="num">
        {row.last_step === null ? (
          count(row.steps)
        ) : (
          <Link
            href={base + stepPath(row.project, row.experiment, row.last_step)}
            title={t.experiments.openLast(row.last_step)}
          >
            {count(row.steps)}
          </Link>
        )}
      </td>
      <td className="num">{count(row.trajectories)}</td>
      <td>
        <span className="reward-cell">
          <Sparkline
            values={numbersOf(row.rewards)}
            width={112}
            height={20}
            label={`${t.experiments.reward} ${measure(reward)}`}
          />
          <span className="num">{measure(reward)}</span>
        </span>
      </td>
      <td>
        <span className="chips">
          {flags.slice(0, FLAGS_SHOWN).map(([flag, n]) => (
            <span key={flag} className="flag-count">
              <FlagChip flag={flag} />
              <span className="mono dim">{count(n)}</span>
            </span>
          ))}
          {flags.length > FLAGS_SHOWN && (
            <span
              className="chip quiet"
              title={flags
                .slice(FLAGS_SHOWN)
                .map(([flag, n]) => `${flag} ${n}`)
                .join("\n")}
            >
              +{flags.length - FLAGS_SHOWN}
            </span>
          )}
        </span>
      </td>
      <td className={`num${row.lost ? " err" : ""}`}>{count(row.lost)}</td>
      <td className="num">{bytes(row.size_bytes)}</td>
      <td className="num">{row.end_ns > row.start_ns ? seconds((row.end_ns - row.start_ns) / 1e9) : MISSING}</td>
      <td className="num">{count(row.runs.length)}</td>
    </tr>
  );
}
