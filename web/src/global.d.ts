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
  /** By panel, what was drawn last. */
  longfatDrawn?: Record<string, () => DrawnCurve[]>;
  /** Whether all is drawn as it is to be. */
  longfatRests?: () => boolean;
}
