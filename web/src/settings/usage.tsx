// The usage of the runs, by day and by project.

import { useEffect, useState } from 'preact/hooks';

import type { Usage as Report, UsageRow } from '../protocol/messages.ts';
import { baseName, money } from '../ui/dom.ts';
import { Text } from '../ui/elements.tsx';
import { useTrying } from '../ui/overlays.tsx';
import { useWorld } from '../ui/world.ts';
import { Section } from './page.tsx';

type Sum = { key: string; label: string; runs: number; cost: number; tokens: number };

/** The sums of the rows with the same key, in the order in which the keys first occur. */
export function sums(rows: UsageRow[], key: (row: UsageRow) => [key: string, label: string]): Sum[] {
  const found = new Map<string, Sum>();
  for (const row of rows) {
    const [id, label] = key(row);
    const sum = found.get(id) ?? { key: id, label, runs: 0, cost: 0, tokens: 0 };
    sum.runs += row.runs ?? 0;
    sum.cost += row.cost_usd ?? 0;
    sum.tokens += (row.input_tokens ?? 0) + (row.output_tokens ?? 0);
    found.set(id, sum);
  }
  return [...found.values()];
}

/** "Wed, Nov 25", in the browser's language, and the same in all time zones. @param day such as "2026-11-25" */
export const dayWords = (day: string) =>
  new Date(`${day}T00:00`).toLocaleDateString(undefined, { weekday: 'short', day: 'numeric', month: 'short' });

export function Usage() {
  const { client } = useWorld();
  const [report, setReport] = useState<Report>();
  const { problem, trying } = useTrying();
  useEffect(() => {
    void trying(async () => setReport((await client.connection.ask('usage', { days: 30 }, { lasting: true })).data));
  }, []);
  const rows = report?.rows ?? [];
  const days = sums(rows, ({ day }) => [day, dayWords(day)]);
  const projects = sums(rows, ({ project_id, path }) => [project_id, baseName(path)]);
  days.sort((a, b) => b.key.localeCompare(a.key));
  projects.sort((a, b) => b.cost - a.cost || b.runs - a.runs);
  return (
    <Section title="Usage in the last 30 days">
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {report && !report.complete && <p class="hint">Older histories are still being counted.</p>}
      {report && rows.length === 0 && <p class="hint">No runs in the last 30 days.</p>}
      {rows.length > 0 && (
        <>
          <Table caption="By project" head="Project" sums={projects} />
          <Table caption="By day" head="Day" sums={days} />
        </>
      )}
    </Section>
  );
}

const count = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

function Table({ caption, head, sums: all }: { caption: string; head: string; sums: Sum[] }) {
  const most = Math.max(...all.map(({ cost }) => cost), 0);
  return (
    <div class="usage">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">{head}</th>
            <th scope="col">Runs</th>
            <th scope="col">Tokens</th>
            <th scope="col">Cost</th>
          </tr>
        </thead>
        <tbody>
          {all.map((one) => (
            <tr key={one.key}>
              <th scope="row">
                <Text line>{one.label}</Text>
                {most > 0 && <meter min={0} max={most} value={one.cost} aria-hidden="true" />}
              </th>
              <td>{one.runs}</td>
              <td>{one.tokens ? count.format(one.tokens) : '–'}</td>
              <td>{one.cost ? money(one.cost) : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
