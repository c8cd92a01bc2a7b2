// Messages between the page and its worker, and the documents of crates/playground.
import type { RunDetail, Topology } from '../api';
import type { EventRow } from './instance';

export type ToWorker =
  | { kind: 'module'; module: WebAssembly.Module }
  | { kind: 'algorithms'; id: number }
  | { kind: 'run'; id: number; request: string }
  | { kind: 'cells'; id: number; table: string; subject: string; column: string }
  | { kind: 'events'; id: number };

export type FromWorker =
  | { kind: 'algorithms'; id: number; algorithms: string[] }
  | { kind: 'answer'; id: number; answer: string; wall_ms: number }
  | { kind: 'cells'; id: number; cells: Float64Array }
  | { kind: 'events'; id: number; events: EventRow[] }
  | { kind: 'failed'; id: number; message: string }
  | { kind: 'progress'; elapsed_s: number };

/** As `Request` of crates/playground/src/compute.rs. */
export interface Request {
  name: string;
  toml: string;
  engine: string;
  variant?: string | null;
}

export interface Mistake {
  position: [number, number] | null;
  message: string;
  advice: string | null;
}

export interface Computed {
  summary: Pick<RunDetail, 'scenario' | 'title' | 'host' | 'published'> & { runs: RunDetail['summary'][] };
  variants: string[];
  toml: string;
  topology: Topology;
  flows: string[];
  links: string[];
  rows: number;
  end_s: number;
}

export type Answer = { run: Computed } | { mistakes: Mistake[] } | { failed: string };
