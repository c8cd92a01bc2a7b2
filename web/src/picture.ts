// The cached picture of a chart's samples, which is shown scaled while the span moves.
import type { View } from './curves';
import type { Span } from './runs.svelte';

/** A rectangle of a canvas, in canvas pixels. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** Margin above and below, so that a line at the end of the axis keeps its full width; page pixels. */
const EDGE_PX = 2;
/** A picture can be used up to this scaling, */
const MAX_SCALING = 4;
/** and down to this share of the span that it covers. */
const MIN_COVERAGE = 0.75;

export class Picture {
  private context = document.createElement('canvas').getContext('2d')!;
  private span: Span = { from: 0, to: 0 };
  /** The range of the value axis. */
  range: [number, number] = [0, 1];

  constructor(private paint: (view: View) => void) {}

  /** Draws the samples in a box of this size. */
  draw({ width, height }: Box, span: Span, range: [number, number]) {
    const { canvas } = this.context;
    const edge = Math.round(EDGE_PX * devicePixelRatio);
    const high = height + 2 * edge;
    if (canvas.width === width && canvas.height === high) this.context.clearRect(0, 0, width, high);
    else [canvas.width, canvas.height] = [width, high];
    [this.span, this.range] = [span, range];
    this.paint(this.view(this.context, { left: 0, top: edge, width, height }, span));
  }

  serves(span: Span): boolean {
    const length = span.to - span.from;
    const present = Math.min(span.to, this.span.to) - Math.max(span.from, this.span.from);
    return present >= MIN_COVERAGE * length && this.span.to - this.span.from <= MAX_SCALING * length;
  }

  /** Shows the cached part of a span, and draws the remaining parts. */
  show(context: CanvasRenderingContext2D, box: Box, span: Span) {
    const { canvas } = this.context;
    const edge = Math.round(EDGE_PX * devicePixelRatio);
    if (span === this.span) {
      context.drawImage(canvas, box.left, box.top - edge);
      return;
    }
    const [from, to] = [Math.max(span.from, this.span.from), Math.min(span.to, this.span.to)];
    const view = this.view(context, box, span);
    const fill = (start: number, end: number) => {
      const [left, right] = [Math.round(view.x(start)), Math.round(view.x(end))];
      if (right <= left) return;
      context.save();
      context.beginPath();
      context.rect(left, box.top - edge, right - left, box.height + 2 * edge);
      context.clip();
      this.paint({ ...view, from: start, to: end });
      context.restore();
    };
    if (to <= from) return fill(span.from, span.to);
    const perTime = canvas.width / (this.span.to - this.span.from);
    const [wide, width] = [(to - from) * perTime, view.x(to) - view.x(from)];
    context.imageSmoothingEnabled = wide > width;
    context.drawImage(
      canvas,
      (from - this.span.from) * perTime,
      0,
      wide,
      canvas.height,
      view.x(from),
      box.top - edge,
      width,
      box.height + 2 * edge,
    );
    fill(span.from, from);
    fill(to, span.to);
  }

  private view(context: CanvasRenderingContext2D, { left, top, width, height }: Box, { from, to }: Span): View {
    const [low, high] = this.range;
    const [perTime, perValue] = [width / (to - from), height / (high - low)];
    return {
      context,
      from,
      to,
      ratio: devicePixelRatio,
      x: (time) => left + (time - from) * perTime,
      y: (value) => top + (high - value) * perValue,
    };
  }
}
