// The charts of a run and their measures.

export interface Panel {
  id: string;
  title: string;
  unit: string;
  measures: string[];
  ofLinks: boolean;
  /** Measures that the axis ignores if they are far above the others. */
  offAxis: string[];
}

const flows = (id: string, title: string, unit: string, measures: string[], offAxis: string[] = []): Panel => ({
  id,
  title,
  unit,
  measures,
  offAxis,
  ofLinks: false,
});

export const STANDARD: Panel[] = [
  flows('goodput', 'Goodput', 'b/s', ['goodput']),
  flows('window', 'Windows', 'B', ['cwnd', 'inflight', 'ssthresh', 'rwnd'], ['ssthresh', 'rwnd']),
  flows('rtt', 'Round-trip time', 's', ['rtt']),
  { id: 'queue', title: 'Queue', unit: 'B', measures: ['queue'], ofLinks: true, offAxis: [] },
  flows('retrans', 'Segments retransmitted since the start', '', ['retrans']),
];

/** The chart of windows if several runs are compared. */
export const WINDOW_ALONE: Panel = flows('window', 'Congestion window', 'B', ['cwnd']);

/** Measures of links for the drawing of the network. */
export const TOPOLOGY_MEASURES = ['link_rate', 'queue'];
export const TRACE_MEASURES = ['sent', 'sent_end', 'retransmitted', 'retransmitted_end', 'acknowledged', 'window_end'];

export const SHORT: Record<string, string> = {
  cwnd: 'cwnd',
  inflight: 'in flight',
  ssthresh: 'ssthresh',
  rwnd: 'receive window',
  goodput: 'goodput',
  rtt: 'srtt',
};
/** How a measure is drawn in a panel of several: dashes, width in pixels, opacity. */
export const STROKES: Record<string, { dash: number[]; width: number; alpha: number }> = {
  inflight: { dash: [], width: 1, alpha: 0.6 },
  ssthresh: { dash: [7, 4], width: 1.3, alpha: 1 },
  rwnd: { dash: [2, 3], width: 1.6, alpha: 1 },
};
/** Dash patterns of flows if several runs are compared. */
export const FLOW_DASHES: number[][] = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

/** Space at the left of all charts for the axis, and at their right, pixels. */
export const left = (width: number) => (width < 640 ? 60 : 104);
export const RIGHT = 20;
