// The runs that are open beside each other: what is known of them, the span of time that is shown, and its series.
import type { RunDetail } from './api';
import * as client from './client';
import type { Curve, Series } from './client';
import { until } from './curves';
import { frames } from './frames';

/** How often a run that goes on is asked for, milliseconds. */
const AGAIN_MS = 1000;
/** The shortest span, seconds. */
const SHORTEST_S = 20e-6;
const HISTORY_MAX = 50;
/** While the span moves, what is there will do with so many columns for each pixel. */
const COARSE_LEAST = 0.5;

export interface Span {
  from: number;
  to: number;
}

/** What is asked for in every run. */
export interface Wanted {
  measures: string[];
  link_measures: string[];
  trace: string[];
  flows: string[];
}

export class OpenRuns {
  details = $state.raw<RunDetail[]>([]);
  /** By run. */
  series = $state.raw<(Series | null)[]>([]);
  span = $state.raw<Span>({ from: 0, to: 1 });
  /** Where the cursor is in time; null when it is nowhere. */
  cursor = $state<number | null>(null);
  trouble = $state('');
  /** Width of the charts in pixels: what is asked for follows it. */
  columns = 1200;
  wanted: Wanted = { measures: [], link_measures: [], trace: [], flows: [] };

  end = $derived(Math.max(1e-3, ...this.details.map((run) => run.end_s)));
  isWhole = $derived(this.span.from <= 0 && this.span.to >= this.end);
  isGrowing = $derived(this.details.some((run) => run.partial));

  private history: Span[] = [];
  private asking = false;
  private again = false;
  private ended = false;
  private timer: ReturnType<typeof setInterval> | undefined;
  private abort = new AbortController();

  constructor(public keys: string[]) {}

  async open() {
    try {
      this.details = await client.open(this.keys);
    } catch (error) {
      this.trouble = (error as Error).message;
      return;
    }
    if (this.ended) return;
    this.series = this.keys.map(() => null);
    this.span = { from: 0, to: this.end };
    this.timer = setInterval(() => void this.follow(), AGAIN_MS);
  }

  close() {
    this.ended = true;
    this.abort.abort();
    clearInterval(this.timer);
  }

  /** Looks after runs that go on, and stays at their end while all is shown. */
  private async follow() {
    if (!this.isGrowing || document.hidden || this.ended) return;
    const wasWhole = this.isWhole;
    try {
      const details = await client.open(this.keys);
      if (this.ended) return;
      const changed = details.some((run, i) => run.rows !== this.details[i]?.rows || run.partial !== this.details[i]?.partial);
      this.details = details;
      this.trouble = '';
      if (!changed) return;
      if (wasWhole) this.span = { from: 0, to: this.end };
      void this.ask(true);
    } catch (error) {
      this.trouble = (error as Error).message;
    }
  }

  /** Shows a span; the one before can be gone back to. */
  show(from: number, to: number, remember = true) {
    const length = Math.max(SHORTEST_S, Math.min(to - from, this.end));
    const start = Math.max(0, Math.min(from, this.end - length));
    if (remember) {
      this.history.push(this.span);
      if (this.history.length > HISTORY_MAX) this.history.shift();
    }
    this.span = { from: start, to: start + length };
    frames.move(() => void this.ask());
    void this.ask();
  }

  /** Zooms by a factor around an instant. */
  zoom(factor: number, around = this.cursor ?? (this.span.from + this.span.to) / 2) {
    const { from, to } = this.span;
    this.show(around - (around - from) * factor, around + (to - around) * factor, false);
  }

  /** Moves along by a share of the span. */
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

  /** A round trip around the cursor. */
  roundTrip() {
    const flow = this.details[0]?.summary.flows.find((f) => f.mean_rtt_us !== null);
    const rtt = (flow?.mean_rtt_us ?? 1e5) / 1e6;
    const middle = this.cursor ?? (this.span.from + this.span.to) / 2;
    this.show(middle - rtt, middle + rtt);
  }

  /** Asks for the series of what is shown and as much again around it, one question at a time. */
  async ask(anew = false) {
    if (this.details.length === 0 || this.ended) return;
    if (!anew && this.isServed()) return;
    if (this.asking) {
      this.again = true;
      return;
    }
    this.asking = true;
    do {
      this.again = false;
      const { from, to } = this.span;
      const around = (to - from) / 2;
      const [from_s, to_s] = [Math.max(0, from - around), Math.min(this.end, to + around)];
      const columns = Math.ceil((this.columns * (to_s - from_s)) / (to - from));
      try {
        const found = await Promise.all(
          this.keys.map((run) =>
            client.series({ run, from_s, to_s, columns, ...this.wanted, links: [], causes: true, events: true }, this.abort.signal),
          ),
        );
        if (this.ended) break;
        this.series = found;
        this.trouble = '';
      } catch (error) {
        if (this.ended) break;
        this.trouble = (error as Error).message;
      }
    } while (this.again && !this.isServed());
    this.asking = false;
  }

  /** Whether what is there covers the span as finely as it is drawn. */
  private isServed(): boolean {
    const first = this.series[0];
    if (!first) return false;
    const density = first.columns / (first.to_s - first.from_s);
    const needed = this.columns / (this.span.to - this.span.from);
    const covers = first.from_s <= this.span.from + 1e-9 && first.to_s >= Math.min(this.span.to, this.end) - 1e-9;
    return covers && density > needed * (frames.isMoving ? COARSE_LEAST : 0.95) && density < needed * 3;
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
