// Requests to the server.
import { breakAt, gapsIn } from './gaps';
import { page } from './page.svelte';
import type { Span } from './runs.svelte';
import type { PublishedRow, RunDetail, RunList, SeriesHead, SweepDocument, Vocabulary } from './api';

/** Which curves to draw; as `SeriesRequest` of crates/view/src/page/documents.rs. */
export interface SeriesRequest {
  run: string;
  from_s: number;
  to_s: number;
  columns: number;
  measures: string[];
  flows: string[];
  link_measures: string[];
  links: string[];
  trace: string[];
  causes: boolean;
  events: boolean;
}

/** Times in seconds, values in base units; NaN is a gap. */
export interface Points {
  xs: Float64Array;
  ys: Float64Array;
}

/** A curve, and the means of its samples if there are many noisy ones. */
export interface Curve extends Points {
  of: string;
  subject: string;
  measure: string;
  mean: Points | null;
  /** Spans without samples. */
  gaps: Span[];
}

/** The causes of one flow: one byte per column and cause, where 255 is the column's whole time. */
export interface CauseShares {
  subject: string;
  columns: number;
  shares: Uint8Array;
}

export interface Series {
  head: SeriesHead;
  from_s: number;
  to_s: number;
  columns: number;
  curves: Curve[];
  causes: CauseShares[];
}

/** The server refused a request, or has ended (status 0). */
export class Refused extends Error {
  constructor(
    public status: number,
    message: string,
  ) {
    super(message);
  }
}

const TOKEN = 'longfat-token';

/** The token of the agent's reader, which the tab keeps; `longfat view` needs none. */
export const keptToken = () => sessionStorage.getItem(TOKEN);
export const keepToken = (token: string) => sessionStorage.setItem(TOKEN, token);

async function request(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const init: RequestInit = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  const token = keptToken();
  if (token) init.headers = { Authorization: `Bearer ${token}` };
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, page.isOfMesh ? 'the agent does not reply' : 'longfat view has ended');
  }
  if (!response.ok) throw new Refused(response.status, (await response.text()).trim());
  return response;
}

export async function json<T>(path: string, body?: unknown): Promise<T> {
  return (await request(path, body)).json() as Promise<T>;
}

/** A request whose response has no content. */
export async function change(path: string, body: unknown): Promise<void> {
  await request(path, body);
}

export const vocabulary = () => json<Vocabulary>('/api/vocabulary');
export const runs = () => json<RunList>('/api/runs');
export const sweeps = () => json<SweepDocument[]>('/api/sweeps');
export const published = () => json<PublishedRow[]>('/api/published');
export const open = (keys: string[]) => json<RunDetail[]>('/api/open', { runs: keys });

export async function series(wanted: SeriesRequest, signal: AbortSignal): Promise<Series> {
  const response = await request('/api/series', wanted, signal);
  return decode(await response.arrayBuffer(), wanted);
}

/** Decodes a response; crates/view/src/page/wire.rs documents the encoding. */
function decode(buffer: ArrayBuffer, request: SeriesRequest): Series {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as SeriesHead;
  let at = 4 + length;
  const floats = (count: number) => {
    const found = new Float64Array(buffer, at, count);
    at += 8 * count;
    return found;
  };
  const points = (count: number): Points => ({ xs: floats(count), ys: floats(count) });
  const stalls = head.marks
    .filter((mark) => mark.kind === 'stall' && mark.subject === 'sampler')
    .map((mark) => ({ from: mark.t, to: mark.t + mark.value / 1e6 }));
  const curves = head.curves.map(({ of, subject, measure, ...counts }) => {
    const all = points(counts.points);
    const mean = counts.means > 0 ? points(counts.means) : null;
    // Segments of a trace have no typical distance.
    const gaps = of === 'trace' ? [] : [...gapsIn(all), ...stalls].sort((a, b) => a.to - b.to);
    return { of, subject, measure, ...breakAt(all, gaps), mean: mean && breakAt(mean, gaps), gaps };
  });
  const causes = head.causes.map((cause) => {
    const shares = new Uint8Array(buffer, at, cause.bytes);
    at += cause.bytes;
    return { ...cause, shares };
  });
  return { head, curves, causes, from_s: request.from_s, to_s: request.to_s, columns: request.columns };
}
