// The fields of the form: each is a value in the text of the scenario, which the form replaces in place. Therefore both the form
// and the text can be edited, and the text keeps its comments.

export interface Field {
  name: string;
  label: string;
  /** The text before the value, and the value in quotation marks. */
  pattern: RegExp;
  /** Suggested values. */
  values: string[];
}

/** A key of the first link that has it; `forward` and `backward` have the same form. */
const ofLink = (key: string) => new RegExp(`((?:forward|backward|both)\\s*=\\s*\\{[^}]*?\\b${key}\\s*=\\s*")([^"\\n]*)`);
const ofLine = (key: string) => new RegExp(`(^${key}\\s*=\\s*")([^"\\n]*)`, 'm');

export const FIELDS: Field[] = [
  { name: 'rate', label: 'Rate', pattern: ofLink('rate'), values: ['10mbit', '100mbit', '1gbit', '10gbit'] },
  { name: 'delay', label: 'One-way delay', pattern: ofLink('delay'), values: ['1ms', '10ms', '50ms', '150ms'] },
  { name: 'queue', label: 'Queue', pattern: ofLink('queue'), values: ['100p', '1000p', '250kB', '2.5MB'] },
  { name: 'loss', label: 'Loss', pattern: ofLink('loss'), values: ['0%', '0.001%', '0.01%', '0.1%', '1%'] },
  { name: 'cc', label: 'Congestion control', pattern: ofLine('cc'), values: [] },
  { name: 'duration', label: 'Duration', pattern: ofLine('duration'), values: ['5s', '10s', '30s', '60s'] },
];

/** The value of a field; null if the text does not have it in the notation of the form. */
export const valueOf = (toml: string, field: Field): string | null => field.pattern.exec(toml)?.[2] ?? null;

/** The text with another value of a field. */
export const withValue = (toml: string, field: Field, value: string): string =>
  toml.replace(field.pattern, (_, before: string) => before + value.replaceAll(/["\\\n]/g, ''));

/** The text with one more flow, a copy of the last one with another name. */
export function withFlow(toml: string): string {
  const blocks = [...toml.matchAll(/^\[\[flows\]\]\n(?:(?!\s*\[).*\n?)*/gm)];
  const last = blocks.at(-1);
  if (!last) return toml;
  const names = new Set([...toml.matchAll(/^name\s*=\s*"([^"]*)"/gm)].map((match) => match[1]));
  let number = blocks.length + 1;
  while (names.has(`flow${number}`)) number++;
  const copy = last[0].trimEnd().replace(/^name\s*=.*$/m, `name = "flow${number}"`);
  const end = last.index + last[0].trimEnd().length;
  return `${toml.slice(0, end)}\n\n${copy}${toml.slice(end)}`;
}

export const TEMPLATE = `title = "A path of 1 Gb/s and 20 ms"
duration = "10s"

[hosts.h1]
address = "10.0.0.1/24"

[hosts.h2]
address = "10.0.0.2/24"

[[links]]
ends = ["h1", "h2"]
forward = { rate = "1gbit", delay = "10ms", queue = "1000p", loss = "0%" }
backward = { delay = "10ms" }

[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
`;
