// The server's documents. The same types as crates/view/src/page/documents.rs and crates/schema: the test
// crates/view/tests/page_types.rs compares every field.

export type Cause =
  | 'receive_window'
  | 'send_buffer'
  | 'path_rate'
  | 'loss'
  | 'ecn_marks'
  | 'local_queue'
  | 'slow_start'
  | 'application'
  | 'pacing'
  | 'host_cpu';

export type PublishedVerdict =
  'within' | 'differs' | 'contradicted' | 'no_figure' | 'missed' | 'unreliable' | 'untrusted' | 'not_run';

export interface RunList {
  runs_dir: string;
  requested: string[];
  runs: RunItem[];
}

export interface RunItem {
  scenario: string;
  id: string;
  path: string;
  partial: boolean;
  engine?: string;
  variant?: string | null;
  started?: string;
  duration_s?: number;
  quality_ok?: boolean;
  flows?: KnownFlow[];
  title?: string;
  repeat?: number;
  sweep?: string[];
  point?: Record<string, string>;
  set?: Record<string, string>;
  file?: string | null;
  kernel?: string | null;
  seed?: number;
  error?: string;
}

export interface KnownFlow {
  name: string;
  goodput_bps: number | null;
  verdict: Cause | null;
  verdict_also?: Cause;
  cc: string | null;
}

export interface RunDetail {
  key: string;
  label: string;
  scenario: string;
  title: string;
  host: HostInfo;
  partial: boolean;
  age_s: number;
  end_s: number;
  rows: number;
  flows: string[];
  links: string[];
  traced: string[];
  topology: Topology;
  summary: RunSummary;
  published: PublishedResult[];
}

export interface HostInfo {
  kernel: string;
  cpus: number;
}

export interface Topology {
  nodes: TopologyNode[];
  links: TopologyLink[];
  paths: TopologyPath[];
}

export interface TopologyNode {
  name: string;
  kind: string;
  address: string;
}

export interface TopologyLink {
  name: string;
  from: string;
  to: string;
  forward: string;
  backward: string;
}

export interface TopologyPath {
  flow: string;
  from: string;
  to: string;
  hops: string[];
}

export interface RunSummary {
  id: string;
  engine: string;
  variant: string | null;
  kernel?: string;
  file?: string;
  set: Record<string, string>;
  sweep: Record<string, string>;
  record?: string;
  repeat: number;
  seed: number;
  duration_s: number;
  wall_s: number;
  started: string;
  partial: boolean;
  flows: FlowSummary[];
  links: LinkSummary[];
  fairness_jain: number | null;
  quality: Quality;
  discarded?: DiscardedRun[];
}

export interface DiscardedRun {
  started: string;
  faults: string[];
}

export interface FlowSummary {
  name: string;
  from: string;
  to: string;
  kind: string;
  cc: string | null;
  cc_set?: Record<string, boolean | number>;
  cc_kernel_name: string | null;
  cc_from: string | null;
  goodput_bps: number | null;
  steady_goodput_bps: number | null;
  steady_from_s: number | null;
  bytes: number | null;
  retransmitted_segs: number | null;
  sent_segs: number | null;
  min_rtt_us: number | null;
  mean_rtt_us: number | null;
  median_rtt_us: number | null;
  max_rtt_us: number | null;
  first_rtt_us: number | null;
  mdev_rtt_us?: number;
  parts?: PartGoodput[];
  first_rtt_stalled_us?: number;
  max_rtt_stalled_us?: number;
  pings_sent: number | null;
  pings_lost: number | null;
  datagrams_sent?: number;
  datagrams_lost?: number;
  datagrams_reordered?: number;
  datagrams_duplicated?: number;
  stream?: StreamSummary;
  loss_share?: number;
  min_owd_us?: number;
  mean_owd_us?: number;
  max_owd_us?: number;
  jitter_us?: number;
  recovery_s?: number;
  max_cwnd_bytes: number | null;
  mean_cwnd_bytes: number | null;
  mss_bytes: number | null;
  max_rcv_wnd_bytes: number | null;
  binding_window_bytes: number | null;
  window_share: number | null;
  wire_limit_bps: number | null;
  limited: Limited;
  limited_steady: Limited;
  verdict: Cause | null;
  verdict_also?: Cause;
  evidence: string[];
  remedy: string | null;
  fixes?: Fix[];
}

export interface StreamSummary {
  due_packets: number;
  in_time_share: number;
  late_packets: number;
  gaps_of_1: number;
  gaps_of_2_to_10: number;
  gaps_of_11_to_100: number;
  gaps_over_100: number;
  longest_gap_packets: number;
  is_sustainable: boolean;
  sustainable_up_to_bps: number | null;
}

export interface Fix {
  host: string;
  command: string;
  reason: string;
}

export interface Limited {
  receive_window: number;
  send_buffer: number;
  path_rate: number;
  loss: number;
  ecn_marks: number;
  local_queue: number;
  slow_start: number;
  application: number;
  pacing: number;
  host_cpu: number;
}

export interface LinkSummary {
  name: string;
  direction: string;
  rate_bps: number | null;
  utilization: number | null;
  sent_packets: number;
  dropped_queue: number;
  dropped_loss: number;
  max_queue_bytes: number;
  mean_queue_bytes: number;
  dropped_aqm: number;
  dropped_mtu: number;
  dropped_down: number;
  marked: number;
  duplicated: number;
  corrupted: number;
  reordered: number;
}

export interface Quality {
  ok: boolean;
  disturbed?: boolean;
  emulator_late_p50_us: number | null;
  emulator_late_p99_us: number | null;
  emulator_late_max_us: number | null;
  stalls?: number;
  stalled_max_us?: number;
  stalled_total_us?: number;
  cpu_idle_min: number | null;
  other_programs_cpu?: number;
  outside_drops: number;
  faults?: string[];
  notes: string[];
}

export interface PublishedResult {
  id: string;
  metric: string;
  kind: string;
  claim?: string;
  variant: string | null;
  beside?: string;
  published: number | null;
  bound?: string;
  unit: string;
  tolerance: number;
  model: number | null;
  sim: number | null;
  lab: number | null;
  hosts?: number | null;
  kernels?: { kernel: string; figure: number; verdict: string }[];
  model_published_kernel: number | null;
  verdict: PublishedVerdict;
  judged?: EngineVerdict[];
  faults?: string[];
  contradiction?: string;
  known_miss?: string;
  why: string | null;
}

/** An engine's figure of a published result; its verdict can also be `does_not_apply`. */
export interface EngineVerdict {
  engine: string;
  kernel?: string;
  figure: number | null;
  verdict: string;
  why?: string;
  experiment?: string;
}

export interface PartGoodput {
  from_s: number;
  to_s: number;
  goodput_bps: number;
}

export interface SeriesHead {
  end_s: number;
  curves: CurveHead[];
  causes: CausesHead[];
  marks: Mark[];
}

export interface CurveHead {
  of: string;
  subject: string;
  measure: string;
  points: number;
  means: number;
}

export interface CausesHead {
  subject: string;
  columns: number;
  bytes: number;
}

export interface Mark {
  subject: string;
  kind: string;
  t: number;
  count: number;
  value: number;
}

export interface Vocabulary {
  version: string;
  can_compute: boolean;
  causes: CauseWord[];
  colours: [string, string][];
  measures: MeasureWord[];
  sources: [string, string][];
}

export interface CauseWord {
  cause: Cause;
  name: string;
  explain: string;
  light: string;
  dark: string;
}

export interface MeasureWord {
  name: string;
  title: string;
  unit: string;
  of_links: boolean;
}

export interface SweepDocument {
  scenario: string;
  title: string;
  fields: SweptField[];
  metrics: SweepMetric[];
}

export interface SweptField {
  field: string;
  unit: string;
}

export interface SweptValue {
  text: string;
  number: number | null;
}

export interface SweepMetric {
  name: string;
  unit: string;
  points: MetricPoint[];
  knees: SweepKnee[];
  knee_texts: string[];
}

export interface MetricPoint {
  engine: string;
  variant: string | null;
  values: SweptValue[];
  runs: string[];
  figures: number[];
  mean: number;
}

export interface SweepKnee {
  engine: string;
  variant: string | null;
  others: SweptValue[];
  at: number;
  plateau: number;
  level_from: number | null;
  law: WindowLaw | null;
}

export interface WindowLaw {
  real_bytes: number;
  loaded_rtt_us: number;
  window_bytes: number;
  at: number;
}

export interface PublishedRow {
  scenario: string;
  result: PublishedResult;
  runs: string[];
}
