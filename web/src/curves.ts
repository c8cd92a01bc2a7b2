// Curves on a canvas. If samples are denser than pixels and vary, each column of pixels is one bar from the minimum to the
// maximum: no peak is lost, and bars are much faster to draw than a zigzag line.
import type { Points } from './client';

/** A part of the time axis on a canvas. */
export interface View {
  context: CanvasRenderingContext2D;
  /** Times. */
  from: number;
  to: number;
  /** The pixel of a time, and of a value. */
  x: (time: number) => number;
  y: (value: number) => number;
  /** Canvas pixels per page pixel. */
  ratio: number;
}

export interface Stroke {
  colour: string;
  /** In page pixels. */
  width: number;
  dash: number[];
  alpha: number;
  /** Whether a value holds until the next sample (a staircase). */
  isStepped?: boolean;
}

/** A curve is drawn as bars with more than this many samples per column of pixels
 * and more than this mean distance between consecutive values, pixels. */
const DENSE = 1;
const ROUGH_PX = 3;
/** Maximum number of points in a path: stroking a zigzag of a thousand points at once takes ten times as long. */
const PATH_POINTS = 64;
/** Radius of a dot. */
const DOT_PX = 2;

/** The number of samples up to and including an instant. */
export function until({ xs }: Points, time: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const at = (low + high) >> 1;
    if ((xs[at] ?? 0) <= time) low = at + 1;
    else high = at;
  }
  return low;
}

/** Draws the part of a curve in a view, with one more sample on each side. */
export function drawCurve(view: View, points: Points, stroke: Stroke) {
  const { context, ratio } = view;
  const first = Math.max(0, until(points, view.from) - 1);
  const end = Math.min(points.xs.length, until(points, view.to) + 1);
  const scaled = { ...stroke, width: stroke.width * ratio, dash: stroke.dash.map((px) => px * ratio) };
  context.save();
  context.globalAlpha = stroke.alpha;
  context.strokeStyle = context.fillStyle = stroke.colour;
  context.lineWidth = scaled.width;
  context.lineJoin = 'bevel';
  const isDense = end - first > DENSE * (view.x(view.to) - view.x(view.from));
  if (isDense && roughness(view, points, first, end) > ROUGH_PX * ratio) drawBars(view, points, first, end, scaled);
  else drawLine(view, points, first, end, scaled);
  context.restore();
}

/** Mean vertical distance between consecutive samples, pixels. */
function roughness({ y }: View, { ys }: Points, first: number, end: number): number {
  let sum = 0;
  for (let i = first + 1; i < end; i++) {
    const step = Math.abs((ys[i] ?? NaN) - (ys[i - 1] ?? NaN));
    if (!Number.isNaN(step)) sum += step;
  }
  return Math.abs(y(sum) - y(0)) / (end - first);
}

/** The centre of the pixel at a coordinate. */
const middle = (coordinate: number) => Math.floor(coordinate) + 0.5;

function drawLine({ context, x, y }: View, { xs, ys }: Points, first: number, end: number, stroked: Stroke) {
  const { dash, isStepped, width } = stroked;
  context.setLineDash(dash);
  let [lastX, lastY] = [NaN, NaN];
  // The path contains only the first and the last of consecutive equal values.
  let isHeld = false;
  // The path continues the one before.
  let isContinued = false;
  let [points, length] = [0, 0];
  let [atX, atY] = [NaN, NaN];
  const to = (px: number, py: number) => {
    if (points > 0) context.lineTo(px, py);
    else context.moveTo(px, py);
    if (dash.length > 0 && points > 0) length += Math.hypot(px - atX, py - atY);
    points++;
    [atX, atY] = [px, py];
  };
  const stroke = () => {
    // A single value between gaps is a dot, as in the plots of the program.
    if (points === 1 && !isContinued) context.fillRect(atX - width / 2, atY - width / 2, width, width);
    else context.stroke();
    context.beginPath();
    context.lineDashOffset = length;
    points = 0;
  };
  context.beginPath();
  for (let i = first; i < end; i++) {
    const value = ys[i] ?? NaN;
    if (Number.isNaN(value)) {
      if (isHeld) to(lastX, lastY);
      stroke();
      isHeld = isContinued = false;
      continue;
    }
    const [px, py] = [middle(x(xs[i] ?? 0)), middle(y(value))];
    if (points > 0 && py === lastY) isHeld = true;
    else {
      if (points > 0 && isStepped) to(px, lastY);
      else if (isHeld) to(lastX, lastY);
      to(px, py);
      isHeld = false;
    }
    [lastX, lastY] = [px, py];
    if (points > PATH_POINTS) {
      stroke();
      isContinued = true;
      to(px, py);
    }
  }
  if (isHeld) to(lastX, lastY);
  stroke();
}

function drawBars(
  { context, x, y }: View,
  { xs, ys }: Points,
  first: number,
  end: number,
  { width, dash, alpha, isStepped }: Stroke,
) {
  // Translucent bars must not overlap.
  const wide = alpha < 1 ? 1 : Math.round(width);
  const period = dash.reduce((sum, px) => sum + px, 0);
  let column = NaN;
  let [top, bottom, last] = [0, 0, 0];
  const fill = () => {
    if (period === 0 || isOn(dash, column % period))
      context.fillRect(column - ((wide - 1) >> 1), top - width / 2, wide, bottom - top + width);
  };
  context.beginPath();
  for (let i = first; i < end; i++) {
    const value = ys[i] ?? NaN;
    if (Number.isNaN(value)) {
      if (!Number.isNaN(column)) fill();
      column = NaN;
      continue;
    }
    const [px, py] = [Math.floor(x(xs[i] ?? 0)), middle(y(value))];
    if (px === column) {
      top = Math.min(top, py);
      bottom = Math.max(bottom, py);
    } else {
      const isNext = px === column + 1;
      if (!Number.isNaN(column)) {
        fill();
        if (!isNext) {
          context.moveTo(column + 0.5, last);
          if (isStepped) context.lineTo(px + 0.5, last);
          context.lineTo(px + 0.5, py);
        }
      }
      column = px;
      top = isNext ? Math.min(py, last) : py;
      bottom = isNext ? Math.max(py, last) : py;
    }
    last = py;
  }
  if (!Number.isNaN(column)) fill();
  context.setLineDash(dash);
  context.stroke();
}

/** Whether a dash pattern is drawn at a distance from its start. */
function isOn(dash: number[], at: number): boolean {
  let remaining = at;
  const index = dash.findIndex((px) => (remaining -= px) < 0);
  return index % 2 === 0;
}

/** Draws a dot at each sample. */
export function drawDots({ context, from, to, x, y, ratio }: View, points: Points, colour: string, ground: string) {
  context.strokeStyle = colour;
  context.fillStyle = ground;
  context.lineWidth = ratio;
  for (let i = Math.max(0, until(points, from) - 1); i < points.xs.length && (points.xs[i] ?? 0) <= to; i++) {
    const value = points.ys[i] ?? NaN;
    if (Number.isNaN(value)) continue;
    context.beginPath();
    context.arc(x(points.xs[i] ?? 0), middle(y(value)), DOT_PX * ratio, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
}
