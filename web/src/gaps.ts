// Gaps in curves: samples without a value, and spans without samples that are much longer than the typical distance between two
// samples.
import type { Points } from './client';
import type { Span } from './runs.svelte';

/** With fewer samples there is no typical distance. */
const MIN_SAMPLES = 20;
/** The typical distance is longer than this share of all distances. */
const USUAL_SHARE = 0.8;
/** A gap is longer than the typical distance by this factor. */
const MIN_FACTOR = 5;

/** The points of samples. Consecutive samples without a value (NaN) are one break, none before the first value, as in
 * crates/view/src/page/pyramid.rs. */
export function pointsOf(samples: Iterable<[number, number]>): Points {
  const [xs, ys]: [number[], number[]] = [[], []];
  for (const [x, y] of samples) {
    if (Number.isNaN(y) && Number.isNaN(ys[ys.length - 1] ?? NaN)) continue;
    xs.push(x);
    ys.push(y);
  }
  return { xs: Float64Array.from(xs), ys: Float64Array.from(ys) };
}

/** The gaps between the samples of a curve. */
export function gapsIn({ xs }: Points): Span[] {
  if (xs.length < MIN_SAMPLES) return [];
  const distances = xs.slice(1).map((x, i) => x - (xs[i] ?? 0));
  const usual = [...distances].sort((a, b) => a - b)[Math.floor(USUAL_SHARE * distances.length)] ?? 0;
  const gaps: Span[] = [];
  distances.forEach((distance, i) => {
    if (distance > MIN_FACTOR * usual) gaps.push({ from: xs[i] ?? 0, to: xs[i + 1] ?? 0 });
  });
  return gaps;
}

/** The points with a break (NaN) in each gap, so that no line crosses it. */
export function breakAt(points: Points, gaps: Span[]): Points {
  if (gaps.length === 0) return points;
  const [xs, ys]: [number[], number[]] = [[], []];
  let next = 0;
  points.xs.forEach((x, i) => {
    let [from, isBreak] = [0, false];
    while (next < gaps.length && x >= gaps[next]!.to) {
      [from, isBreak] = [gaps[next]!.from, true];
      next++;
    }
    if (isBreak && xs.length > 0) {
      xs.push(Math.max(from, xs[xs.length - 1]!));
      ys.push(NaN);
    }
    xs.push(x);
    ys.push(points.ys[i] ?? NaN);
  });
  return { xs: Float64Array.from(xs), ys: Float64Array.from(ys) };
}
