// The open runs: their details, the shown time span, and its series.
import type { RunDetail } from './api';
import * as client from './client';
import type { Curve, Series, SeriesRequest } from './client';
import { until } from './curves';
import { frames } from './frames';

/** Interval between requests for a run in progress, milliseconds. */
const REFRESH_MS = 1000;
/** Minimum span, seconds. */
const MIN_SPAN_S = 20e-6;
const MAX_HISTORY = 50;
/** Minimum number of columns per pixel in the series while the span moves. */
const MIN_MOVING_DENSITY = 0.5;

export interface Span {
  from: number;
  to: number;
}

/** The measures and flows requested of every run. */
export interface Wanted {
  measures: string[];
  link_measures: string[];
  trace: string[];
  flows: string[];
}

/** Where the details and the series of runs come from. */
export interface Source {
  open(keys: string[]): Promise<RunDetail[]>;
  series(request: SeriesRequest, signal: AbortSignal): Promise<Series>;
}

export class OpenRuns {
  details = $state.raw<RunDetail[]>([]);
  /** One per run. */
  series = $state.raw<(Series | null)[]>([]);
  span = $state.raw<Span>({ from: 0, to: 1 });
  /** The cursor's time; null if there is no cursor. */
  cursor = $state<number | null>(null);
  trouble = $state('');
  /** Width of the charts in pixels, which determines the requested resolution. */
  columns = 1200;
  wanted: Wanted = { measures: [], link_measures: [], trace: [], flows: [] };

  end = $derived(Math.max(1e-3, ...this.details.map((run) => run.end_s)));
  isWhole = $derived(this.span.from <= 0 && this.span.to >= this.end);
  isGrowing = $derived(this.details.some((run) => run.partial));

  private history: Span[] = [];
  private isRequesting = false;
  private isOutdated = false;
  /** Whether the series are outdated although they cover the span: other measures or flows are requested, or the run has changed. */
  private isForced = false;
  private ended = false;
  private timer: ReturnType<typeof setInterval> | undefined;
  private abort = new AbortController();

  constructor(
    public keys: string[],
    private source: Source = client,
  ) {}

  async open() {
    try {
      this.details = await this.source.open(this.keys);
    } catch (error) {
      this.trouble = (error as Error).message;
      return;
    }
    if (this.ended) return;
    this.series = this.keys.map(() => null);
    this.span = { from: 0, to: this.end };
    this.timer = setInterval(() => void this.follow(), REFRESH_MS);
  }

  /** Reloads the runs, because the source has computed them again. */
  async refresh() {
    const wasWhole = this.isWhole;
    this.details = await this.source.open(this.keys);
    if (wasWhole || this.span.to > this.end) this.span = { from: 0, to: this.end };
    await this.requestSeries(true);
  }

  close() {
    this.ended = true;
    this.abort.abort();
    clearInterval(this.timer);
  }

  /** Updates runs in progress. While the whole run is shown, the span grows with it. */
  private async follow() {
    if (!this.isGrowing || document.hidden || this.ended) return;
    const wasWhole = this.isWhole;
    try {
      const details = await this.source.open(this.keys);
      if (this.ended) return;
      const changed = details.some((run, i) => run.rows !== this.details[i]?.rows || run.partial !== this.details[i]?.partial);
      this.details = details;
      this.trouble = '';
      if (!changed) return;
      if (wasWhole) this.span = { from: 0, to: this.end };
      void this.requestSeries(true);
    } catch (error) {
      this.trouble = (error as Error).message;
    }
  }

  /** Shows a span. With `remember`, `back` returns to the previous one. */
  show(from: number, to: number, remember = true) {
    const length = Math.max(MIN_SPAN_S, Math.min(to - from, this.end));
    const start = Math.max(0, Math.min(from, this.end - length));
    if (remember) {
      this.history.push(this.span);
      if (this.history.length > MAX_HISTORY) this.history.shift();
    }
    this.span = { from: start, to: start + length };
    frames.move(() => void this.requestSeries());
    void this.requestSeries();
  }

  /** Zooms by a factor around an instant. */
  zoom(factor: number, around = this.cursor ?? (this.span.from + this.span.to) / 2) {
    const { from, to } = this.span;
    this.show(around - (around - from) * factor, around + (to - around) * factor, false);
  }

  /** Moves the span by a share of its length. */
  move(share: number) {
    const by = (this.span.to - this.span.from) * share;
    this.show(this.span.from + by, this.span.to + by, false);
  }

  whole() {
    this.show(0, this.end);
  }

  back() {
    const last = this.history.pop();
    if (last) this.show(last.from, last.to, false);
    else this.show(0, this.end, false);
  }

  /** The smallest minimum RTT of the shown flows, seconds; null if none was measured. */
  minRtt(hidden: string[] = []): number | null {
    const flows = this.details.flatMap((run) => run.summary.flows);
    const known = flows.filter((flow) => !hidden.includes(flow.name)).flatMap((flow) => flow.min_rtt_us ?? []);
    return known.length > 0 ? Math.min(...known) / 1e6 : null;
  }

  /** Shows one minimum RTT around the cursor. */
  roundTrip(hidden: string[] = []) {
    const rtt = this.minRtt(hidden);
    if (rtt === null) return;
    const middle = this.cursor ?? (this.span.from + this.span.to) / 2;
    this.show(middle - rtt / 2, middle + rtt / 2);
  }

  /** Requests the series of the shown span and half a span on each side, one request at a time. */
  async requestSeries(force = false) {
    if (this.details.length === 0 || this.ended) return;
    if (!force && this.isCovered()) return;
    if (this.isRequesting) {
      this.isOutdated = true;
      this.isForced ||= force;
      return;
    }
    this.isRequesting = true;
    do {
      this.isOutdated = false;
      this.isForced = false;
      const { from, to } = this.span;
      const around = (to - from) / 2;
      const [from_s, to_s] = [Math.max(0, from - around), Math.min(this.end, to + around)];
      const columns = Math.ceil((this.columns * (to_s - from_s)) / (to - from));
      try {
        const found = await Promise.all(
          this.keys.map((run) =>
            this.source.series(
              { run, from_s, to_s, columns, ...this.wanted, links: [], causes: true, events: true },
              this.abort.signal,
            ),
          ),
        );
        if (this.ended) break;
        this.series = found;
        this.trouble = '';
      } catch (error) {
        if (this.ended) break;
        this.trouble = (error as Error).message;
      }
    } while (this.isForced || (this.isOutdated && !this.isCovered()));
    this.isRequesting = false;
  }

  /** Whether the series cover the span at the resolution of the charts. */
  private isCovered(): boolean {
    const first = this.series[0];
    if (!first) return false;
    const density = first.columns / (first.to_s - first.from_s);
    const needed = this.columns / (this.span.to - this.span.from);
    const covers = first.from_s <= this.span.from + 1e-9 && first.to_s >= Math.min(this.span.to, this.end) - 1e-9;
    return covers && density > needed * (frames.isMoving ? MIN_MOVING_DENSITY : 0.95) && density < needed * 3;
  }
}

/** The newest sample (or mean) of a curve that is not later than an instant. */
export function sampleAt(curve: Curve, time: number): { time: number; value: number } | null {
  const points = curve.mean ?? curve;
  const at = until(points, time) - 1;
  const value = points.ys[at];
  return value === undefined || Number.isNaN(value) ? null : { time: points.xs[at] ?? 0, value };
}

export const valueAt = (curve: Curve, time: number): number | null => sampleAt(curve, time)?.value ?? null;
