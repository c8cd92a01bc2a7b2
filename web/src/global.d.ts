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
  longfatDrawn?: Record<string, DrawnCurve[]>;
}
