// Which charts a run has, and what each shows.

export interface Panel {
  id: string;
  title: string;
  unit: string;
  measures: string[];
  ofLinks: boolean;
  /** Measures that the axis leaves out where they are far above the others. */
  beside: string[];
}

const flows = (id: string, title: string, unit: string, measures: string[], beside: string[] = []): Panel => ({
  id, title, unit, measures, beside, ofLinks: false,
});

export const STANDARD: Panel[] = [
  flows('goodput', 'Goodput', 'b/s', ['goodput']),
  flows('window', 'Windows', 'B', ['cwnd', 'inflight', 'ssthresh', 'rwnd'], ['ssthresh', 'rwnd']),
  flows('rtt', 'Round-trip time', 's', ['rtt']),
  { id: 'queue', title: 'Queue', unit: 'B', measures: ['queue'], ofLinks: true, beside: [] },
  flows('retrans', 'Segments retransmitted since the start', '', ['retrans']),
];

/** Of runs beside each other the windows' chart shows this one. */
export const WINDOW_ALONE: Panel = flows('window', 'Congestion window', 'B', ['cwnd']);

/** What the topology shows beside the charts' own. */
export const TOPOLOGY_MEASURES = ['link_rate', 'queue'];
export const TRACE_MEASURES = ['sent', 'sent_end', 'retransmitted', 'retransmitted_end', 'acknowledged', 'window_end'];

export const SHORT: Record<string, string> = {
  cwnd: 'cwnd', inflight: 'in flight', ssthresh: 'ssthresh', rwnd: 'receive window', goodput: 'goodput', rtt: 'srtt',
};
/** How a measure is drawn beside the others of its panel: dashes, width in pixels, opacity. */
export const STROKES: Record<string, { dash: number[]; width: number; alpha: number }> = {
  inflight: { dash: [], width: 1, alpha: 0.6 },
  ssthresh: { dash: [7, 4], width: 1.3, alpha: 1 },
  rwnd: { dash: [2, 3], width: 1.6, alpha: 1 },
};
/** Dashes of the flows of runs beside each other. */
export const FLOW_DASHES: number[][] = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

/** Left of all charts, for the axis; right of them. */
export const left = (width: number) => (width < 640 ? 54 : 62);
export const RIGHT = 20;
