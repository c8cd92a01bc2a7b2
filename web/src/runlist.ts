// Rows of the list of runs: repeats of one point folded into a row, and rows in the order of a column.
import type { KnownFlow, RunItem } from './api';

/** One run, or the repeats of one point of a scenario, a sweep, an engine and a variant with the same settings. */
export interface Row {
  /** The newest run's key. */
  key: string;
  /** Oldest first. */
  runs: RunItem[];
  newest: RunItem;
}

export type Column = 'scenario' | 'variant' | 'engine' | 'goodput' | 'verdict' | 'flows' | 'duration' | 'started';

export interface Order {
  column: Column;
  isDescending: boolean;
}

export const keyOf = (run: RunItem) => `${run.scenario}/${run.id}`;

/** The flow with the largest goodput represents the run. */
export function mainFlow(run: RunItem): KnownFlow | undefined {
  return [...(run.flows ?? [])].sort((a, b) => (b.goodput_bps ?? -1) - (a.goodput_bps ?? -1))[0];
}

/** The goodputs of a row's runs. */
export function goodputs({ runs }: Row): number[] {
  return runs.flatMap((run) => mainFlow(run)?.goodput_bps ?? []);
}

export function meanGoodput(row: Row): number | null {
  const all = goodputs(row);
  return all.length > 0 ? all.reduce((sum, value) => sum + value, 0) / all.length : null;
}

/** Folds the repeats of one point. `runs` are oldest first. A repeat number that a row already has begins a new row: the
 * same command was run again. */
export function fold(runs: RunItem[]): Row[] {
  const rows: Row[] = [];
  const newest = new Map<string, Row>();
  for (const run of runs) {
    // Repeats differ in their seed only.
    const set = Object.entries(run.set ?? {}).filter(([field]) => field !== 'seed');
    const point = JSON.stringify([run.scenario, run.engine, run.variant, run.kernel, run.sweep, set]);
    const known = newest.get(point);
    const isRepeat = run.error === undefined && run.repeat !== undefined;
    if (known && isRepeat && known.runs.every((other) => other.repeat !== run.repeat)) {
      known.runs.push(run);
      [known.newest, known.key] = [run, keyOf(run)];
      continue;
    }
    const row = { key: keyOf(run), runs: [run], newest: run };
    rows.push(row);
    if (isRepeat) newest.set(point, row);
  }
  return rows;
}

/** The value by which a column orders a row. */
function value(row: Row, column: Column, causeName: (run: RunItem) => string): string | number {
  const run = row.newest;
  if (column === 'goodput') return meanGoodput(row) ?? -1;
  if (column === 'verdict') return causeName(run);
  if (column === 'flows') return run.flows?.length ?? -1;
  if (column === 'duration') return run.duration_s ?? -1;
  if (column === 'started') return new Date(run.started ?? 0).getTime();
  return run[column] ?? '';
}

/** The rows in order; equal rows remain newest first. */
export function inOrder(rows: Row[], { column, isDescending }: Order, causeName: (run: RunItem) => string): Row[] {
  const compare = (a: string | number, b: string | number) =>
    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
  const keyed = [...rows].reverse().map((row) => ({ row, key: value(row, column, causeName) }));
  keyed.sort((a, b) => (isDescending ? -1 : 1) * compare(a.key, b.key));
  return keyed.map(({ row }) => row);
}
