// Formats figures in the same way as crates/view/src/number.rs.

const PREFIXES: [number, string][] = [
  [1e12, 'T'],
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
  [1, ''],
];
const SMALL: [number, string][] = [
  [1e-3, 'm'],
  [1e-6, 'µ'],
];

/** The factor and prefix with which a figure of this magnitude has one to three digits before the point. */
export function prefix(size: number, unit: string): [number, string] {
  const usable = unit === 's' ? [[1, ''] as [number, string], ...SMALL] : PREFIXES;
  const found = usable.find(([factor]) => Math.abs(size) >= factor * 0.9995);
  return found ?? usable[usable.length - 1] ?? [1, ''];
}

export function significant(value: number, digits: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const exponent = Number(value.toExponential(digits - 1).split('e')[1]);
  return value.toFixed(Math.max(0, Math.min(12, digits - 1 - exponent)));
}

/** A figure with its unit: `9.56 Gb/s`, `26.2 MB`, `20.04 ms`, `12,345`. */
export function figure(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (unit === '') return count(value);
  if (value === 0) return `0 ${unit}`;
  const [factor, name] = prefix(value, unit);
  return `${significant(value / factor, unit === 's' ? 4 : 3)} ${name}${unit}`;
}

export const rate = (bps: number | null | undefined) => figure(bps, 'b/s');
export const bytes = (size: number | null | undefined) => figure(size, 'B');
export const seconds = (s: number | null | undefined) => figure(s, 's');
export const micros = (us: number | null | undefined) => figure(us === null || us === undefined ? us : us / 1e6, 's');

export function count(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return '–';
  const text = Number.isInteger(n) ? String(n) : significant(n, 4);
  const [whole = '', rest] = text.split('.');
  return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest === undefined ? '' : `.${rest}`);
}

export function share(part: number | null | undefined): string {
  if (part === null || part === undefined) return '–';
  const percent = part * 100;
  if (percent > 0 && percent < 0.05) return '<0.1 %';
  const nearAnEnd = (percent > 0 && percent < 9.95) || (percent > 99 && percent < 99.95);
  return `${percent.toFixed(nearAnEnd ? 1 : 0)} %`;
}

/** A figure of a summary or published result, with its unit as stored. */
export function measured(value: number | null | undefined, unit: string): string {
  if (unit === 'bit/s') return rate(value);
  if (unit === '1') return value !== null && value !== undefined && value > 1 ? significant(value, 3) : share(value);
  return unit === 'B' || unit === 's' ? figure(value, unit) : `${count(value)} ${unit}`.trim();
}

/** An RFC 3339 time as `2026-11-21 22:19:58` in the reader's time zone. */
export function moment(started: string): string {
  const at = new Date(started);
  if (Number.isNaN(at.getTime())) return '–';
  const two = (n: number) => String(n).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The number of decimals that distinguish multiples of a step. */
function decimalsOf(step: number): number {
  for (let decimals = 0; decimals < 9; decimals++) {
    const scaled = step * 10 ** decimals;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return decimals;
  }
  return 9;
}

/** Tick texts of an axis, all with the same prefix, and the unit. */
export function ticks(values: number[], unit: string): { texts: string[]; unit: string } {
  const size = values.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
  const [factor, name] = unit === '' && size < 1e4 ? ([1, ''] as [number, string]) : prefix(size || 1, unit);
  const step = values.length > 1 ? Math.abs(((values[1] ?? 0) - (values[0] ?? 0)) / factor) : 1;
  const decimals = decimalsOf(step || 1);
  return { texts: values.map((v) => (v / factor).toFixed(decimals)), unit: name + unit };
}

/** Tick texts of the time axis: seconds, with as many digits as their distance needs; the last has the unit. */
export function timeTicks(values: number[]): string[] {
  const step = values.length > 1 ? (values[1] ?? 1) - (values[0] ?? 0) : 1;
  const decimals = Math.min(6, decimalsOf(step));
  return values.map((t, i) => t.toFixed(decimals) + (i === values.length - 1 ? ' s' : ''));
}

/** A time on the axis, with as many digits as the span needs. */
export function instant(t: number, span: number): string {
  const decimals = Math.max(0, Math.min(6, 3 - Math.floor(Math.log10(span || 1))));
  return `${t.toFixed(decimals)} s`;
}
