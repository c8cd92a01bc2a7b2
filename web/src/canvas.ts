// A canvas over the charts' time axis, drawn anew.
import { left, RIGHT } from './panels';

export interface Plot {
  context: CanvasRenderingContext2D;
  /** Where the time axis begins, and how many pixels it has. */
  start: number;
  plotted: number;
  /** The pixel of a time. */
  x: (time: number) => number;
  /** A colour of the page's style, as in `--grid`. */
  colour: (name: string) => string;
  /** Writes a row's name before the axis. */
  name: (text: string, middle: number) => void;
}

/** Clears the canvas at the screen's own resolution. */
export function plot(canvas: HTMLCanvasElement, width: number, height: number, span: { from: number; to: number }): Plot | null {
  const context = canvas.getContext('2d');
  if (!context) return null;
  const ratio = devicePixelRatio;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  context.scale(ratio, ratio);
  const start = left(width);
  const plotted = width - start - RIGHT;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name);
  const name = (text: string, middle: number) => {
    context.fillStyle = colour('--soft');
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillText(text, start - 6, middle, start - 8);
  };
  return { context, start, plotted, x: (time) => start + ((time - span.from) / (span.to - span.from)) * plotted, colour, name };
}

/** A line through all at the cursor's time. */
export function drawCursor({ context, x, colour }: Plot, at: number | null, height: number): void {
  if (at === null) return;
  context.fillStyle = colour('--text');
  context.fillRect(x(at), 0, 1, height);
}
