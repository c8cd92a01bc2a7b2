// State shared by all parts of the page: the vocabulary and colours, the theme, and the route.
import type { Cause, CauseWord, MeasureWord, Vocabulary } from './api';

export type Theme = 'auto' | 'light' | 'dark';

export interface Route {
  view: 'runs' | 'run' | 'sweeps' | 'published';
  runs: string[];
}

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const STORED = 'longfat-theme';

function storedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === 'light' || stored === 'dark' ? stored : 'auto';
}

class Page {
  vocabulary = $state.raw<Vocabulary | null>(null);
  theme = $state<Theme>(storedTheme());
  systemIsDark = $state(dark.matches);
  route = $state.raw<Route>({ view: 'runs', runs: [] });
  helpIsOpen = $state(false);
  /** An error of the whole page, for instance when the server has ended. */
  trouble = $state('');

  isDark = $derived(this.theme === 'dark' || (this.theme === 'auto' && this.systemIsDark));
  private styles = new Map<string, string>();

  constructor() {
    dark.addEventListener('change', () => (this.systemIsDark = dark.matches));
    window.addEventListener('hashchange', () => (this.route = routeOf(location.hash)));
    this.route = routeOf(location.hash);
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

  causeColour(cause: Cause): string {
    const word = this.cause(cause);
    return word ? (this.isDark ? word.dark : word.light) : 'transparent';
  }

  measure(name: string): MeasureWord | undefined {
    return this.vocabulary?.measures.find((word) => word.name === name);
  }
}

/** The route of `#/run/lab8/x&lab8/y`, `#/sweeps` or `#/published`; else the list. */
function routeOf(hash: string): Route {
  const path = hash.replace(/^#\/?/, '');
  if (path === 'sweeps' || path === 'published') return { view: path, runs: [] };
  if (path.startsWith('run/')) {
    const runs = path
      .slice(4)
      .split('&')
      .map(decodeURIComponent)
      .filter((key) => key.includes('/'));
    if (runs.length > 0) return { view: 'run', runs };
  }
  return { view: 'runs', runs: [] };
}

/** The address of one run, or of several to compare. */
export function runAddress(keys: string[]): string {
  return `#/run/${keys.map((key) => key.split('/').map(encodeURIComponent).join('/')).join('&')}`;
}

export const page = new Page();
