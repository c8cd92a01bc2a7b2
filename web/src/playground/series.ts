// The series of a computed run, as the server of records returns them. Measures are those of crates/view/src/page/measure.rs; a test
// compares the charts of a record with those of the same run computed here.
import type { Mark } from '../api';
import type { CauseShares, Curve, Series, SeriesRequest } from '../client';
import { breakAt, gapsIn, pointsOf } from '../gaps';
import { page } from '../page.svelte';
import type { ComputedRun } from './computer';

/** Rates from this on are the kernel's value for "unlimited". */
const UNLIMITED_BPS = 1e15;

type Cells = Float64Array;
type Formula = [columns: string[], value: (...cells: number[]) => number];

const orZero = (value: number) => (Number.isNaN(value) ? 0 : value);
const product = (a: number, b: number) => a * b;
const limited = (rate: number) => (rate >= 0 && rate < UNLIMITED_BPS ? rate : NaN);

const FORMULAS: Record<string, Formula> = {
  goodput: [['goodput_bps'], (bps) => bps],
  cwnd: [['snd_cwnd_segs', 'snd_mss_bytes'], product],
  ssthresh: [['snd_ssthresh_segs', 'snd_mss_bytes'], product],
  rtt: [['srtt_us'], (us) => us / 1e6],
  rwnd: [['snd_wnd_bytes', 'rcv_wnd_bytes'], (sent, received) => (Number.isNaN(sent) ? received : sent)],
  inflight: [
    ['unacked_segs', 'sacked_segs', 'lost_segs', 'retrans_segs', 'snd_mss_bytes'],
    (unacked, sacked, lost, retrans, mss) => Math.max(0, unacked - orZero(sacked) - orZero(lost) + orZero(retrans)) * mss,
  ],
  sndbuf: [['sndbuf_bytes'], (bytes) => bytes],
  pacing: [['pacing_rate_bps'], limited],
  delivery_rate: [['delivery_rate_bps'], limited],
  retrans: [['total_retrans_segs'], (segs) => segs],
  queue: [['queue_bytes'], (bytes) => bytes],
  drops: [
    ['dropped_queue_packets', 'dropped_loss_packets', 'dropped_aqm_packets'],
    (queue, loss, aqm) => queue + orZero(loss) + orZero(aqm),
  ],
  link_rate: [['rate_bps'], (bps) => bps],
};

/** The measure of this name: one of the above, else a column. */
const formula = (measure: string): Formula =>
  FORMULAS[measure] ?? [[measure], measure.endsWith('_us') ? (us) => us * 1e-6 : (value) => value];

export async function seriesOf(run: ComputedRun, request: SeriesRequest): Promise<Series> {
  const flows = request.flows.length > 0 ? run.detail.flows.filter((name) => request.flows.includes(name)) : run.detail.flows;
  const curves = await Promise.all([
    ...flows.flatMap((flow) => request.measures.map((measure) => curveOf(run, 'flow', flow, measure, request))),
    ...run.detail.links.flatMap((link) => request.link_measures.map((measure) => curveOf(run, 'link', link, measure, request))),
  ]);
  const causes = request.causes ? await Promise.all(flows.map((flow) => causesOf(run, flow, request))) : [];
  const marks = request.events ? await marksOf(run, request) : [];
  const { from_s, to_s, columns } = request;
  return { head: { end_s: run.detail.end_s, curves: [], causes: [], marks }, curves, causes, from_s, to_s, columns };
}

async function curveOf(
  run: ComputedRun,
  of: 'flow' | 'link',
  subject: string,
  measure: string,
  { from_s, to_s }: SeriesRequest,
): Promise<Curve> {
  const table = of === 'flow' ? 'flows' : 'links';
  const [names, value] = formula(measure);
  const [times, ...cells] = (await Promise.all(['time_us', ...names].map((column) => run.cells(table, subject, column)))) as [
    Cells,
    ...Cells[],
  ];
  const samples: [number, number][] = [];
  times.forEach((us, row) => {
    const t = us / 1e6;
    if (t >= from_s && t <= to_s) samples.push([t, value(...cells.map((column) => column[row] ?? NaN))]);
  });
  const all = pointsOf(samples);
  const gaps = gapsIn(all);
  return { of, subject, measure, ...breakAt(all, gaps), mean: null, gaps };
}

/** The share of each cause in each column's time (255 is all), as crates/view/src/page/causes.rs. */
async function causesOf(run: ComputedRun, flow: string, { from_s, to_s, columns }: SeriesRequest): Promise<CauseShares> {
  const [times, found] = await Promise.all([run.cells('flows', flow, 'time_us'), run.cells('flows', flow, 'limited_by')]);
  const count = page.vocabulary?.causes.length ?? 0;
  const shares = new Float64Array(columns * count);
  const width = (Math.max(1, Math.ceil(to_s * 1e6) - Math.floor(from_s * 1e6)) || 1) / Math.max(1, columns);
  const place = (us: number) => Math.min(columns, Math.max(0, (us - Math.floor(from_s * 1e6)) / width));
  for (let row = 1; row < times.length; row++) {
    const cause = found[row] ?? NaN;
    if (Number.isNaN(cause)) continue;
    const [a, b] = [place(times[row - 1] ?? 0), place(times[row] ?? 0)];
    for (let column = Math.floor(a); column < Math.min(columns, Math.ceil(b)); column++)
      shares[column * count + cause]! += Math.max(0, Math.min(b, column + 1) - Math.max(a, column));
  }
  return { subject: flow, columns, shares: Uint8Array.from(shares, (share) => Math.round(share * 255)) };
}

/** Events; those of one kind and subject in the same column are one mark. */
async function marksOf(run: ComputedRun, { from_s, to_s, columns }: SeriesRequest): Promise<Mark[]> {
  const width = (to_s - from_s) / Math.max(1, columns);
  const found = new Map<string, Mark>();
  for (const [us, subject, kind, value] of await run.events()) {
    const t = us / 1e6;
    if (t < from_s || t > to_s) continue;
    const key = `${subject}\t${kind}\t${Math.floor((t - from_s) / width)}`;
    const mark = found.get(key) ?? { subject, kind, t, count: 0, value: 0 };
    mark.count++;
    mark.value += value;
    found.set(key, mark);
  }
  return [...found.values()].sort((a, b) => a.t - b.t);
}
