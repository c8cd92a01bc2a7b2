// What a chart drew last, to show while it is zoomed or moved: drawing ten thousand samples anew takes longer than a frame.
import type uPlot from 'uplot';
import type { Span } from './runs.svelte';

/** Further than that it is drawn anew meanwhile: as much is stretched, and so much of the span must be there. */
const STRETCH_MOST = 8;
const PRESENT_LEAST = 0.5;

export class Snapshot {
  private canvas = document.createElement('canvas');
  private span: Span = { from: 0, to: 0 };
  /** The values' axis as it was drawn. */
  range: [number, number] = [0, 1];

  /** Keeps the curves, which are all that the chart has drawn yet. */
  take(plot: uPlot, span: Span) {
    const { left, top, width, height } = plot.bbox;
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.getContext('2d')?.drawImage(plot.ctx.canvas, left, top, width, height, 0, 0, width, height);
    this.span = { ...span };
    this.range = [plot.scales['y']?.min ?? 0, plot.scales['y']?.max ?? 1];
  }

  /** Whether it will do for a span. */
  serves(span: Span): boolean {
    const length = span.to - span.from;
    const present = Math.min(span.to, this.span.to) - Math.max(span.from, this.span.from);
    return present >= PRESENT_LEAST * length && this.span.to - this.span.from <= STRETCH_MOST * length;
  }

  /** Draws the part that lies in a span where it belongs. */
  put(plot: uPlot, span: Span) {
    const { left, top, width, height } = plot.bbox;
    const [from, to] = [Math.max(span.from, this.span.from), Math.min(span.to, this.span.to)];
    if (to <= from) return;
    const [source, target] = [width / (this.span.to - this.span.from), width / (span.to - span.from)];
    plot.ctx.drawImage(
      this.canvas, (from - this.span.from) * source, 0, (to - from) * source, height,
      left + (from - span.from) * target, top, (to - from) * target, height,
    );
  }
}
