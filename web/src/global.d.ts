/** A curve as it is drawn, for tests. */
interface DrawnCurve {
  label: string;
  subject: string;
  measure: string;
  faint: boolean;
  xs: number[];
  ys: number[];
}

interface Window {
  /** The last run that the browser has computed, and its series, for tests. */
  longfatComputed?: () => import('./playground/computer').ComputedRun | null;
  longfatSeries?: (request: import('./client').SeriesRequest) => Promise<import('./client').Series>;
  /** The last drawing of each panel. */
  longfatDrawn?: Record<string, () => DrawnCurve[]>;
  /** Whether all pictures are up to date and the span does not move. */
  longfatIsIdle?: () => boolean;
}
