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

/** What the topology shows beside the charts' own. */
export const TOPOLOGY_MEASURES = ['link_rate', 'queue'];
export const TRACE_MEASURES = ['sent', 'sent_end', 'retransmitted', 'retransmitted_end', 'acknowledged', 'window_end'];

export const SHORT: Record<string, string> = {
  cwnd: 'cwnd', inflight: 'in flight', ssthresh: 'ssthresh', rwnd: 'receive window', goodput: 'goodput', rtt: 'srtt',
};
/** Dashes of a panel's measures, in order. */
export const DASHES: number[][] = [[], [1.5, 3], [7, 4], [2, 5, 7, 5]];

/** Left of all charts, for the axis; right of them. */
export const left = (width: number) => (width < 640 ? 46 : 62);
export const RIGHT = 12;
