// A canvas over the charts' time axis.
import { page } from './page.svelte';
import { left, RIGHT } from './panels';

export interface Plot {
  context: CanvasRenderingContext2D;
  /** The first pixel of the time axis, and its length in pixels. */
  start: number;
  plotted: number;
  /** The pixel of a time. */
  x: (time: number) => number;
  /** Writes a row's name before the axis. */
  name: (text: string, middle: number) => void;
}

/** Clears the canvas and sets it to the screen's resolution. */
export function plot(canvas: HTMLCanvasElement, width: number, height: number, span: { from: number; to: number }): Plot | null {
  const context = canvas.getContext('2d');
  if (!context) return null;
  const ratio = devicePixelRatio;
  const [wide, high] = [Math.floor(width * ratio), Math.floor(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const start = left(width);
  const plotted = width - start - RIGHT;
  const name = (text: string, middle: number) => {
    context.fillStyle = page.style('--soft');
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillText(text, start - 6, middle, start - 8);
  };
  return { context, start, plotted, x: (time) => start + ((time - span.from) / (span.to - span.from)) * plotted, name };
}

/** Draws a vertical line at the cursor's time. */
export function drawCursor({ context, x }: Plot, at: number | null, height: number): void {
  if (at === null) return;
  context.fillStyle = page.style('--text');
  context.fillRect(x(at), 0, 1, height);
}
