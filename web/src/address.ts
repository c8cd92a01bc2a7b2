// The state in the address of a run's page after `?`: the span, the charts and the hidden flows.
import type { Span } from './runs.svelte';

export interface ViewState {
  /** null is the whole run. */
  span: Span | null;
  /** Charts that were added, and standard charts that were removed. */
  added: string[];
  removed: string[];
  /** null is the default. */
  hidden: string[] | null;
}

/** Seconds with at most six decimals. */
const decimal = (seconds: number) => String(Number(seconds.toFixed(6)));

/** `from=1.5&to=3&chart=pacing_rate&without=queue&hide=bulk`; empty for the view that a run opens with. */
export function viewQuery({ span, added, removed, hidden }: ViewState): string {
  const query = new URLSearchParams();
  if (span) {
    query.set('from', decimal(span.from));
    query.set('to', decimal(span.to));
  }
  for (const chart of added) query.append('chart', chart);
  for (const chart of removed) query.append('without', chart);
  for (const flow of hidden?.length === 0 ? [''] : (hidden ?? [])) query.append('hide', flow);
  return query.toString();
}

export function viewState(text: string): ViewState {
  const query = new URLSearchParams(text);
  const [from, to] = [Number(query.get('from') ?? NaN), Number(query.get('to') ?? NaN)];
  return {
    span: from >= 0 && to > from && Number.isFinite(to) ? { from, to } : null,
    added: query.getAll('chart'),
    removed: query.getAll('without'),
    hidden: query.has('hide') ? query.getAll('hide').filter(Boolean) : null,
  };
}
