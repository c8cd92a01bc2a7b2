// State shared by all parts of the page: the vocabulary and colours, the theme, and the route.
import type { Cause, CauseWord, MeasureWord, Vocabulary } from './api';

export type Theme = 'auto' | 'light' | 'dark';

export interface Route {
  view: 'runs' | 'run' | 'new' | 'sweeps' | 'published' | 'pair' | 'calendar' | 'map';
  /** Runs, both points of a pair, or the scenario of a new run in the encoding of `playground/share.ts`. */
  runs: string[];
  /** The state of the view: what follows `?` in the address. */
  query: string;
}

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const STORED = 'longfat-theme';

/** The theme that the reader chose last, else that of the configuration. */
function storedTheme(): Theme {
  const wanted = localStorage.getItem(STORED) ?? document.documentElement.dataset.defaultTheme;
  return wanted === 'light' || wanted === 'dark' ? wanted : 'auto';
}

class Page {
  vocabulary = $state.raw<Vocabulary | null>(null);
  theme = $state<Theme>(storedTheme());
  systemIsDark = $state(dark.matches);
  route = $state.raw<Route>({ view: 'runs', runs: [], query: '' });
  helpIsOpen = $state(false);
  /** Whether an agent serves the page, which then shows a mesh instead of records. */
  readonly isOfMesh = document.documentElement.dataset.content === 'mesh';
  /** An error of the whole page, for instance when the server has ended. */
  trouble = $state('');

  isDark = $derived(this.theme === 'dark' || (this.theme === 'auto' && this.systemIsDark));
  private styles = new Map<string, string>();

  constructor() {
    dark.addEventListener('change', () => (this.systemIsDark = dark.matches));
    window.addEventListener('hashchange', () => (this.route = routeOf(location.hash)));
    this.route = routeOf(location.hash);
  }

  /** Writes the state of the view to the address; `push` makes a step for the browser's Back. */
  setQuery(query: string, step: 'push' | 'replace') {
    if (query === this.route.query) return;
    const path = location.hash.split('?')[0] || '#/';
    const address = query ? `${path}?${query}` : path;
    if (step === 'push') history.pushState(null, '', address);
    else history.replaceState(null, '', address);
    this.route = { ...this.route, query };
  }

  /** Replaces the address, without the state of the view. */
  setPath(path: string) {
    const address = this.route.query ? `${path}?${this.route.query}` : path;
    history.replaceState(null, '', address);
    this.route = routeOf(address);
  }

  nextTheme() {
    this.theme = this.theme === 'auto' ? (this.systemIsDark ? 'light' : 'dark') : this.theme === 'light' ? 'dark' : 'light';
    localStorage.setItem(STORED, this.theme);
  }

  /** The colour of curve number `index`. */
  colour(index: number): string {
    const pairs = this.vocabulary?.colours ?? [['#0072b2', '#56b4e9'] as [string, string]];
    const pair = pairs[index % pairs.length] ?? ['#888', '#888'];
    return pair[this.isDark ? 1 : 0];
  }

  /** A colour of the style sheet, such as `--grid`, in the current theme. Cached, because reading a computed style is slow. */
  style(name: string): string {
    const key = `${name} ${this.isDark}`;
    const known = this.styles.get(key) ?? getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    this.styles.set(key, known);
    return known;
  }

  cause(cause: Cause): CauseWord | undefined {
    return this.vocabulary?.causes.find((word) => word.cause === cause);
  }

  /** The limit of a flow in words, as the program prints it: "receive window and send buffer" if two limits apply. */
  limits(flow: { verdict: Cause | null; verdict_also?: Cause } | undefined): string {
    if (!flow?.verdict) return '';
    const all = (this.vocabulary?.causes ?? []).filter((word) => word.cause === flow.verdict || word.cause === flow.verdict_also);
    return all.map((word) => word.name).join(' and ');
  }

  causeColour(cause: Cause): string {
    const word = this.cause(cause);
    return word ? (this.isDark ? word.dark : word.light) : 'transparent';
  }

  /** The source of a published figure; empty for figures of the user's own scenarios. */
  source(id: string): string {
    return this.vocabulary?.sources.find(([known]) => known === id)?.[1] ?? '';
  }

  measure(name: string): MeasureWord | undefined {
    return this.vocabulary?.measures.find((word) => word.name === name);
  }
}

/** The route of `#/run/lab8/x&lab8/y?from=1&to=2`, `#/sweeps`, `#/pair/a/b` and so on; else the list. */
function routeOf(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?');
  if (path === 'sweeps' || path === 'published' || path === 'calendar' || path === 'map') return { view: path, runs: [], query };
  const [pair, from, to] = path.split('/');
  if (pair === 'new') return { view: 'new', runs: from ? [from] : [], query };
  if (pair === 'pair' && from && to) return { view: 'pair', runs: [from, to], query };
  if (path.startsWith('run/')) {
    const runs = path
      .slice(4)
      .split('&')
      .map(decoded)
      .filter((key) => key.includes('/'));
    if (runs.length > 0) return { view: 'run', runs, query };
  }
  return { view: 'runs', runs: [], query };
}

/** A part of an address; unchanged if its percent signs are not those of an encoding. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of one run, or of several to compare. */
export function runAddress(keys: string[]): string {
  return `#/run/${keys.map((key) => key.split('/').map(encodeURIComponent).join('/')).join('&')}`;
}

export const page = new Page();
