// Runs that the browser computes: the worker, and the rows of its last run.
import type { RunDetail } from '../api';
import type { EventRow } from './instance';
import type { Answer, Computed, FromWorker, Mistake, Request, ToWorker } from './messages';

/** A run with its rows. */
export class ComputedRun {
  private columns = new Map<string, Promise<Float64Array>>();
  private allEvents: Promise<EventRow[]> | undefined;

  constructor(
    readonly detail: RunDetail,
    readonly computed: Computed,
    private ask: (message: ToWorkerOfRun) => Promise<FromWorker>,
  ) {}

  /** The values of a column of a flow or of a link's direction; NaN where a row has none. */
  cells(table: 'flows' | 'links', subject: string, column: string): Promise<Float64Array> {
    const key = `${table}\t${subject}\t${column}`;
    const known =
      this.columns.get(key) ??
      this.ask({ kind: 'cells', table, subject, column }).then((reply) =>
        reply.kind === 'cells' ? reply.cells : new Float64Array(),
      );
    this.columns.set(key, known);
    return known;
  }

  events(): Promise<EventRow[]> {
    this.allEvents ??= this.ask({ kind: 'events' }).then((reply) => (reply.kind === 'events' ? reply.events : []));
    return this.allEvents;
  }
}

type WithoutId<T> = T extends { id: number } ? Omit<T, 'id'> : never;
type ToWorkerOfRun = WithoutId<Exclude<ToWorker, { kind: 'module' }>>;

export type Outcome = { run: ComputedRun } | { mistakes: Mistake[] } | { failed: string } | { replaced: true };

/** The key of computed runs; keys of records differ, because they begin with a scenario. */
export const COMPUTED = 'computed/run';

export class Computer {
  /** Simulated seconds of the run in progress; null without one. */
  onprogress: (elapsed_s: number | null) => void = () => {};

  private module: Promise<WebAssembly.Module>;
  private worker: Worker | undefined;
  private waiting = new Map<number, (reply: FromWorker) => void>();
  private lastId = 0;
  private isRunning = false;

  /** `address` is that of the WebAssembly module. */
  constructor(address: string) {
    this.module = fetch(address).then(async (response) => {
      if (!response.ok) throw new Error(`cannot load ${address}: ${response.status}`);
      return WebAssembly.compile(await response.arrayBuffer());
    });
    // The first request reports the error.
    this.module.catch(() => {});
  }

  /** The names of the congestion controls that the module contains. */
  async algorithms(): Promise<string[]> {
    const reply = await this.ask(this.started(await this.module), { kind: 'algorithms' });
    return reply.kind === 'algorithms' ? reply.algorithms : [];
  }

  /** Computes a run. A run in progress ends: its outcome is `replaced`. */
  async compute(request: Request): Promise<Outcome> {
    const module = await this.module;
    if (this.isRunning) this.end();
    this.isRunning = true;
    const worker = this.started(module);
    const reply = await this.ask(worker, { kind: 'run', request: JSON.stringify(request) });
    if (worker !== this.worker) return { replaced: true };
    this.isRunning = false;
    this.onprogress(null);
    if (reply.kind !== 'answer') return { failed: reply.kind === 'failed' ? reply.message : 'no answer' };
    const answer = JSON.parse(reply.answer) as Answer;
    if ('mistakes' in answer || 'failed' in answer) return answer;
    const [summary] = answer.run.summary.runs;
    if (!summary) return { failed: 'the answer has no run' };
    summary.wall_s = Math.round(reply.wall_ms) / 1000;
    summary.started = new Date().toISOString();
    return { run: new ComputedRun(detailOf(answer.run, summary), answer.run, (message) => this.ask(worker, message)) };
  }

  /** Ends the run in progress. */
  end() {
    if (this.isRunning) this.close();
  }

  /** Ends the worker, with the run in progress and the rows of the last one. */
  close() {
    this.worker?.terminate();
    this.worker = undefined;
    this.isRunning = false;
    this.onprogress(null);
    const waiting = [...this.waiting];
    this.waiting.clear();
    for (const [id, resolve] of waiting) resolve({ kind: 'failed', id, message: 'ended' });
  }

  private started(module: WebAssembly.Module): Worker {
    if (this.worker) return this.worker;
    const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if (data.kind === 'progress') return this.onprogress(data.elapsed_s);
      this.waiting.get(data.id)?.(data);
      this.waiting.delete(data.id);
    };
    worker.onerror = (event) => {
      const waiting = [...this.waiting];
      this.waiting.clear();
      for (const [id, resolve] of waiting) resolve({ kind: 'failed', id, message: event.message });
    };
    worker.postMessage({ kind: 'module', module } satisfies ToWorker);
    this.worker = worker;
    return worker;
  }

  private ask(worker: Worker, message: ToWorkerOfRun): Promise<FromWorker> {
    const id = ++this.lastId;
    // A worker that has ended does not reply.
    if (worker !== this.worker) return Promise.resolve({ kind: 'failed', id, message: 'ended' });
    return new Promise((resolve) => {
      this.waiting.set(id, resolve);
      worker.postMessage({ ...message, id } as ToWorker);
    });
  }
}

function detailOf(computed: Computed, summary: RunDetail['summary']): RunDetail {
  const { scenario, title, host, published } = computed.summary;
  return {
    key: COMPUTED,
    label: summary.engine,
    scenario,
    title,
    host,
    partial: false,
    age_s: 0,
    end_s: computed.end_s,
    rows: computed.rows,
    flows: computed.flows,
    links: computed.links,
    traced: [],
    topology: computed.topology,
    summary,
    published,
  };
}
