// The documents of an agent's HTTP interface. The same types as crates/agent/src/http/documents.rs: the test
// crates/agent/tests/http.rs compares every field.

export interface MeshDocument {
  schema: string;
  point: string;
  now_us: number;
  points: MeshPoint[];
  pairs: MeshPair[];
}

export interface MeshPoint {
  name: string;
  address: string;
  is_connected: boolean | null;
  failure: string | null;
  place: string | null;
  coordinates: Coordinates | null;
}

export interface Coordinates {
  latitude_deg: number;
  longitude_deg: number;
}

export interface MeshPair {
  from: string;
  to: string;
  state: string;
  cause: string | null;
  cause_text: string | null;
  since_us: number | null;
  unconfirmed_text: string | null;
  goodput_bps: number | null;
  best_goodput_bps: number | null;
  loss_share: number | null;
  min_rtt_us: number | null;
  typical_rtt_us: number | null;
  capacity_bps: number | null;
  available_bps: number | null;
  mtu_bytes: number | null;
  hops: number | null;
  tested_us: number | null;
  last_test_us: number | null;
  options: string | null;
  problem: string | null;
  acknowledgement: Acknowledgement | null;
  muted_until_us: number | null;
  tests: TestCounts;
}

export interface Acknowledgement {
  from: string;
  to: string;
  since_us: number;
  user: string;
  text: string;
  at_us: number;
}

export interface TestCounts {
  finished: number;
  failed: number;
  refused: number;
  not_run: number;
}

export interface PairDocument {
  schema: string;
  from: string;
  to: string;
  now_us: number;
  tests: TestRow[];
  hours: HourRow[];
  changes: NamedChange[];
  remedy: string | null;
}

export interface TestRow {
  id: string;
  from: string;
  to: string;
  kind: string;
  options: string | null;
  task: string | null;
  start_us: number;
  duration_us: number;
  state: string;
  reason: string | null;
  reason_kind: string | null;
  goodput_bps: number | null;
  loss_share: number | null;
  min_rtt_us: number | null;
  typical_rtt_us: number | null;
  capacity_bps: number | null;
  available_bps: number | null;
  mtu_bytes: number | null;
  hops: number | null;
  verdict: string | null;
  evidence: string | null;
  record: string | null;
}

export interface HourRow {
  kind: string;
  options: string | null;
  start_us: number;
  finished: number;
  failed: number;
  not_run: number;
  goodput_bps: number | null;
  min_goodput_bps: number | null;
  max_goodput_bps: number | null;
  loss_share: number | null;
  min_rtt_us: number | null;
  typical_rtt_us: number | null;
  capacity_bps: number | null;
  min_capacity_bps: number | null;
  max_capacity_bps: number | null;
  available_bps: number | null;
  min_available_bps: number | null;
  max_available_bps: number | null;
  min_mtu_bytes: number | null;
  max_mtu_bytes: number | null;
  min_hops: number | null;
  max_hops: number | null;
  verdict: string | null;
}

export interface NamedChange {
  from: string;
  to: string;
  kind: string;
  since_us: number;
  cause: string;
  test: string;
  cause_text: string;
}

export interface CalendarDocument {
  schema: string;
  now_us: number;
  point: string;
  slots: SlotReport[];
  busy_share: number;
}

export interface SlotReport {
  id: string;
  phase: string;
  from: string;
  to: string;
  kind: string;
  class: string;
  start_us: number;
  duration_us: number;
  padding_us: number;
  priority: number;
  user: string | null;
}
