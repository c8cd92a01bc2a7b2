// Shared by the views of a mesh: the document, which is polled, and words for times and causes.
import type { Cause } from './api';
import { change, json, keepToken, keptToken, Refused } from './client';
import type { CalendarDocument, MeshDocument, MeshPair, PairDocument } from './mesh-api';
import { page } from './page.svelte';

/** Time between two requests, ms. */
export const POLL_MS = 3000;

export const calendarOf = (point: string, seconds: number) =>
  json<CalendarDocument>(`/api/v1/calendar?point=${point}&seconds=${seconds}`);
export const pairOf = (from: string, to: string, sinceUs: number) =>
  json<PairDocument>(`/api/v1/pair?from=${from}&to=${to}&since_us=${Math.round(sinceUs)}&limit=10000`);

/** Asks for a token, which this tab keeps; whether the reader entered one. */
function askForToken(scope: string): boolean {
  const token = prompt(`A token with the scope "${scope}" (longfat agent token create NAME --scope ${scope}):`)?.trim();
  if (token) keepToken(token);
  return Boolean(token);
}

class Mesh {
  document = $state.raw<MeshDocument | null>(null);
  #hasAsked = false;

  async poll() {
    try {
      this.document = await json<MeshDocument>('/api/v1/mesh');
      page.trouble = '';
    } catch (error) {
      page.trouble = (error as Error).message;
      if (this.#hasAsked || !isRefusedToken(error)) return;
      this.#hasAsked = true;
      if (askForToken('read')) await this.poll();
    }
  }
}

export const mesh = new Mesh();

const isRefusedToken = (error: unknown) => error instanceof Refused && [401, 403].includes(error.status);

/** Acknowledges a cause or mutes a pair. Asks for a token if the tab has none, or one without the scope. */
export async function decide(path: string, body: unknown) {
  if (!keptToken() && !askForToken('alerts')) return;
  try {
    await change(path, body);
    await mesh.poll();
  } catch (error) {
    if (isRefusedToken(error) && askForToken('alerts')) return decide(path, body);
    page.trouble = (error as Error).message;
  }
}

/** Calls `poll` immediately and then every `POLL_MS` while the component is shown and the page is visible. */
export function every(poll: () => Promise<void>): () => void {
  let timer: ReturnType<typeof setTimeout>;
  let isOver = false;
  const next = async () => {
    if (!document.hidden) await poll();
    if (!isOver) timer = setTimeout(next, POLL_MS);
  };
  void next();
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

const two = (n: number) => String(n).padStart(2, '0');

/** `14:02:10` in the reader's time zone. */
export function clock(us: number): string {
  const at = new Date(us / 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** `14:02` today, `Tuesday 14:02` within a week of the past or the future, else the date. */
export function moment(us: number, nowUs: number): string {
  const [at, now] = [new Date(us / 1000), new Date(nowUs / 1000)];
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  if (at.toDateString() === now.toDateString()) return time;
  if (Math.abs(nowUs - us) < 6 * 86_400e6) return `${at.toLocaleDateString('en', { weekday: 'long' })} ${time}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

/** Whether another cause than the path limits a pair, or its tests get no result. */
export const isTroubled = (pair: MeshPair) => pair.state === 'no_result' || pair.state === 'limited';

/** What limits a pair, in words, with its beginning. */
export function words(pair: MeshPair, nowUs: number): string {
  const since = pair.since_us === null ? '' : ` since ${moment(pair.since_us, nowUs)}`;
  return pair.cause_text === null ? 'no cause known yet' : `${pair.cause_text}${since}`;
}

/** A pair is old if its last result is this many times older than the median of all pairs, and older by this time. */
const [OLD_FACTOR, OLD_US] = [3, 600e6];

/** The pairs whose last test is much older than those of the others, for example of a point that has stopped. */
export function oldPairs({ pairs, now_us }: MeshDocument): Set<MeshPair> {
  const age = (pair: MeshPair) => now_us - (pair.tested_us ?? now_us);
  const ages = pairs.map(age).sort((a, b) => a - b);
  const median = ages[Math.floor(ages.length / 2)] ?? 0;
  return new Set(pairs.filter((pair) => age(pair) > OLD_FACTOR * median + OLD_US));
}

/** The cause in records that has the colour of this cause; diagnoses name causes more precisely. */
const COLOURS: Record<string, Cause> = {
  healthy: 'path_rate',
  receive_buffer: 'receive_window',
  receiver_cpu: 'host_cpu',
  sender_cpu: 'host_cpu',
  short_queue: 'loss',
  policer: 'loss',
};

export function colourOf(cause: string | null): string {
  if (cause === null) return 'transparent';
  if (cause === 'no_result') return page.style('--bad');
  const known = page.causeColour((COLOURS[cause] ?? cause) as Cause);
  return known === 'transparent' ? page.style('--soft') : known;
}

export const pairAddress = (from: string, to: string) => `#/pair/${from}/${to}`;
