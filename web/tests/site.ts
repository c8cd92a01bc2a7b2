// Records of every engine, created with the program, and the page that shows them.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type Page, expect } from '@playwright/test';

const LONGFAT = process.env.LONGFAT ?? '';

const SCENARIO = `title = "Two round-trip times"
duration = "4s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
forward = { rate = "50mbit", delay = "10ms", queue = "100kB" }
[[links]]
ends = ["s1", "h2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
[[variants]]
name = "reno"
flows.bulk.cc = "reno"
[[variants]]
name = "cubic"
flows.bulk.cc = "cubic"
`;

export interface Summary {
  goodput_bps: number;
  max_cwnd_bytes: number | null;
  min_rtt_us: number;
  max_rtt_us: number;
  retransmitted_segs: number;
}

export interface Drawn {
  label: string;
  subject: string;
  measure: string;
  faint: boolean;
  xs: number[];
  ys: number[];
}

export class Site {
  readonly dir = mkdtempSync(join(tmpdir(), 'longfat-page-'));
  readonly runs = join(this.dir, 'runs');
  hasLab = false;
  private started: ChildProcess[] = [];

  constructor(withRecords = true) {
    if (!LONGFAT) throw new Error('LONGFAT must name the program; scripts/web.sh test does');
    if (!withRecords) return;
    try {
      this.makeRecords();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  private makeRecords() {
    const file = join(this.dir, 'pair.toml');
    writeFileSync(file, SCENARIO);
    this.longfat('run', file, '--engine', 'sim,model', '--trace', 'bulk');
    this.longfat(
      'sweep',
      file,
      '--variant',
      'cubic',
      '--set',
      'duration=2s',
      '--engine',
      'sim',
      '--over',
      'flows.bulk.send_buffer=16kB,32kB,64kB,128kB,256kB',
    );
    this.longfat(
      'sweep',
      file,
      '--variant',
      'cubic',
      '--set',
      'duration=1s',
      '--engine',
      'sim',
      '--over',
      'links.h1-s1.forward.delay=5ms,10ms,20ms',
      '--over',
      'links.h1-s1.forward.loss=0.01%,0.1%,1%',
    );
    this.hasLab = this.can('run', file, '--engine', 'lab', '--variant', 'cubic', '--set', 'duration=2s');
    const port = this.serve();
    this.longfat('test', '127.0.0.1', '-p', port, '-t', '2');
  }

  /** Simulates two hosts and the link between them, 10 Mb/s, with a flow of each of these congestion controls. */
  simulate(path: { duration: string; delay: string; queue: string }, ...flows: string[]) {
    const file = join(this.dir, 'long.toml');
    const name = (cc: string, at: number) => (flows.indexOf(cc) === at ? cc : `${cc}-${at}`);
    const flow = (cc: string, at: number) => `[[flows]]\nname = "${name(cc, at)}"\nfrom = "h1"\nto = "h2"\ncc = "${cc}"\n`;
    writeFileSync(
      file,
      `duration = "${path.duration}"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "10mbit", delay = "${path.delay}", queue = "${path.queue}" }
backward = { delay = "${path.delay}" }
${flows.map(flow).join('')}`,
    );
    this.longfat('run', file, '--engine', 'sim');
  }

  longfat(...args: string[]): string {
    return execFileSync(LONGFAT, ['--runs', this.runs, ...args], {
      encoding: 'utf8',
      timeout: 600_000,
      maxBuffer: 1 << 30,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  /** Whether the machine can run it (exit code 4 means that it cannot). */
  private can(...args: string[]): boolean {
    try {
      this.longfat(...args);
      return true;
    } catch (error) {
      if ((error as { status?: number }).status === 4) return false;
      throw error;
    }
  }

  start(...args: string[]): ChildProcess {
    const child = spawn(LONGFAT, ['--runs', this.runs, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
    this.started.push(child);
    return child;
  }

  /** Starts a server for tests; returns its port. */
  serve(): string {
    const port = String(20_000 + (process.pid % 20_000));
    this.start('serve', '-p', port, '-B', '127.0.0.1');
    return port;
  }

  /** Serves the page and returns its address. */
  async page(...args: string[]): Promise<string> {
    const child = this.start('--json', 'view', '--no-open', ...args);
    let text = '';
    for await (const part of child.stdout ?? []) {
      text += String(part);
      try {
        return (JSON.parse(text) as { url: string }).url;
      } catch {
        // The line is not complete yet.
      }
    }
    throw new Error('longfat view ended');
  }

  /** `scenario/id` of the newest record of this engine (and variant). */
  key(engine: string, variant?: string): string {
    const all = JSON.parse(this.longfat('--json', 'ls')) as {
      scenario: string;
      id: string;
      engine: string;
      variant: string | null;
      sweep: string[];
    }[];
    const found = all
      .filter((run) => run.engine === engine && run.sweep.length === 0 && (variant === undefined || run.variant === variant))
      .pop();
    if (!found) throw new Error(`no record of ${engine}`);
    return `${found.scenario}/${found.id}`;
  }

  summary(key: string): Summary {
    const found = JSON.parse(this.longfat('--json', 'show', key)) as { runs: { flows: Summary[] }[] };
    const flow = found.runs[0]?.flows[0];
    if (!flow) throw new Error(`${key} has no flow`);
    return flow;
  }

  /** The largest value in a column of a run's rows. */
  largest(key: string, column: string): number {
    const [names, ...rows] = this.longfat('export', 'csv', key)
      .trim()
      .split('\n')
      .map((line) => line.split(','));
    const at = names!.indexOf(column);
    return Math.max(...rows.map((row) => Number(row[at])));
  }

  close() {
    for (const child of this.started) child.kill('SIGINT');
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Opens the page in a separate browser. Any error in it fails the test. */
export async function visit(
  browser: Browser,
  url: string,
  options: Parameters<Browser['newContext']>[0] = {},
): Promise<{ page: Page; trouble: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const trouble: string[] = [];
  page.on('response', (response) => {
    if (response.status() >= 400)
      trouble.push(`${response.status()} of ${response.url()} ${response.request().postData() ?? ''}`);
  });
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) trouble.push(message.text());
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin && !request.url().startsWith('data:'))
      trouble.push(`asked ${request.url()}`);
  });
  await page.goto(url);
  await page.waitForSelector('header.top');
  return { page, trouble };
}

/** Waits until all charts are drawn in their final state on the screen. */
export async function rests(page: Page) {
  await expect.poll(() => page.evaluate(() => window.longfatIsIdle?.()), { intervals: [20] }).toBe(true);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** Opens runs and waits until they are drawn. */
export async function open(page: Page, ...keys: string[]) {
  await page.goto(`${new URL(page.url()).origin}/#/run/${keys.join('&')}`);
  await expect(page.locator('h1')).toBeVisible();
  if (keys.every((key) => isModel(key))) return;
  await expect.poll(async () => (await drawn(page, 'goodput')).length, { intervals: [20] }).toBeGreaterThan(0);
  await rests(page);
  await page.waitForLoadState('networkidle');
}

/** Closed forms have no samples to draw. */
export const isModel = (key: string) => key.includes('-model');

/** The last drawn curves of a chart. */
export async function drawn(page: Page, panel: string): Promise<Drawn[]> {
  return page.evaluate((id) => window.longfatDrawn?.[id]?.() ?? [], panel);
}

export async function span(page: Page): Promise<{ from: number; to: number }> {
  const shown = page.locator('.tools .span');
  return { from: Number(await shown.getAttribute('data-from')), to: Number(await shown.getAttribute('data-to')) };
}

/** The values of a curve that are present. */
export const values = (curve: Drawn | undefined) => (curve?.ys ?? []).filter((v) => v !== null && !Number.isNaN(v));
