// The playground's figures equal those of the program: every figure of the summary and every sample, for these
// scenarios.
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, resolve } from 'node:path';
import { deflateRawSync, gzipSync } from 'node:zlib';
import { expect, type Page, test } from '@playwright/test';
import type { RunDetail } from '../src/api';
import { drawn, rests, Site, visit } from './site';

const ROOT = resolve(import.meta.dirname, '../..');
const FOLDER = process.env.LONGFAT_PLAYGROUND ?? join(ROOT, 'target/playground');
const MAX_LOADED_BYTES = 3_000_000;
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.wasm': 'application/wasm',
};

/** Scenarios of the repository with several congestion controls, losses, flows, kernels and queue disciplines. */
const SCENARIOS: { file: string; variant?: string; change?: [RegExp, string] }[] = [
  { file: 'lab8.toml' },
  { file: 'g-rttfair-short.toml' },
  { file: 'loss-law.toml' },
  { file: 'l8-hol.toml' },
  { file: 'lab8-ping.toml' },
  { file: 'h-gigabit.toml' },
  { file: 'g-mtufair-short.toml' },
  { file: 'zero-window.toml' },
  { file: 'verdicts.toml' },
  { file: 'gallery/dsl.toml' },
  { file: 'gallery/leo.toml' },
  { file: 'gallery/incast.toml' },
];

const ALGORITHMS = readdirSync(join(ROOT, 'crates/cc/algorithms')).map((file) => file.replace('.bpf.c', ''));

const gigabit = (duration: string) => `duration = "${duration}"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "1gbit", delay = "10ms", queue = "1000p" }
backward = { delay = "10ms" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
`;

let site: Site;
let server: Server;
let address: string;

test.beforeAll(async () => {
  test.skip(!existsSync(join(FOLDER, 'playground.wasm')), 'the playground is not built (scripts/playground.sh build)');
  site = new Site(false);
  server = createServer((request, response) => {
    const path = join(FOLDER, new URL(request.url ?? '/', 'http://x').pathname);
    if (!path.startsWith(FOLDER) || !existsSync(path) || !statSync(path).isFile()) return response.writeHead(404).end();
    response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'application/octet-stream' });
    return createReadStream(path).pipe(response);
  });
  await new Promise<void>((started) => server.listen(0, '127.0.0.1', started));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/playground.html`;
});
test.afterAll(() => {
  server?.close();
  site?.close();
});

interface Request {
  name: string;
  toml: string;
  engine: string;
  variant?: string;
}

const link = (request: Request) => `${address}#/new/${deflateRawSync(JSON.stringify(request)).toString('base64url')}`;

/** Waits until the text of the editor is computed; returns the run. */
async function computed(page: Page): Promise<RunDetail> {
  const state = page.locator('.state');
  await expect(state).toHaveAttribute('data-computing', 'false', { timeout: 50_000 });
  await expect(state).not.toHaveAttribute('data-version', '0');
  const detail = await page.evaluate(() => window.longfatComputed?.()?.detail);
  if (!detail) throw new Error('nothing was computed');
  return detail as RunDetail;
}

/** A run's summary without the values that differ between two runs of the same scenario. */
function figures(summary: object): string {
  const { id: _i, started: _s, wall_s: _w, file: _f, record: _r, ...rest } = summary as Record<string, unknown>;
  return JSON.stringify(rest);
}

/** Compares a run in the browser with one of the program. */
async function compare(page: Page, request: Request) {
  const { writeFileSync } = await import('node:fs');
  const path = join(site.dir, request.name);
  writeFileSync(path, request.toml);
  const variant = request.variant ? ['--variant', request.variant] : [];
  const args = ['run', path, '--engine', request.engine, '--kernel', '6.18', ...variant];
  let output: string;
  try {
    output = site.longfat('--json', ...args);
  } catch (error) {
    // Exit code 3: a published figure was missed. The figures are still printed.
    if ((error as { status?: number }).status !== 3) throw error;
    output = (error as { stdout: string }).stdout;
  }
  const native = (JSON.parse(output) as { runs: ({ record: string } & RunDetail['summary'])[] }).runs[0]!;
  await page.goto('about:blank');
  await page.goto(link(request));
  const detail = await computed(page);
  expect(figures(detail.summary)).toBe(figures(native));

  const [header, ...lines] = site.longfat('export', 'csv', native.record).trim().split('\n');
  const names = header!.split(',');
  const rows = lines.map((line) => line.split(','));
  const flows = [...new Set(rows.map((row) => row[names.indexOf('flow')]!))];
  expect(detail.rows).toBe(rows.length);
  let cells = 0;
  for (const flow of flows) {
    const own = rows.filter((row) => row[names.indexOf('flow')] === flow);
    const metrics = names.filter((name) => name !== 'flow' && name !== 'limited_by');
    const found = await page.evaluate(
      async ([flow, metrics]) => {
        const run = window.longfatComputed?.();
        if (!run) throw new Error('nothing was computed');
        const columns = await Promise.all(metrics.map((name) => run.cells('flows', flow, name)));
        return columns.map((column) => Array.from(column, (value) => (Number.isNaN(value) ? '' : value)));
      },
      [flow, metrics] as const,
    );
    metrics.forEach((name, at) => {
      const expected = own.map((row) => row[names.indexOf(name)]!).map((text) => (text === '' ? '' : Number(text)));
      // A comparison of arrays by Playwright takes minutes for a million cells.
      expect(JSON.stringify(found[at]) === JSON.stringify(expected), `${flow} ${name}`).toBe(true);
      cells += expected.length;
    });
  }
  return { detail, cells };
}

test.describe('figures', () => {
  for (const { file, variant } of SCENARIOS) {
    test(`of ${file} equal those of the program`, async ({ browser }) => {
      test.setTimeout(240_000);
      const { page, trouble } = await visit(browser, address);
      const toml = readFileSync(join(ROOT, 'scenarios', file), 'utf8');
      const name = file.split('/').pop()!;
      const first = variant ?? /\[\[variants\]\]\s*\nname\s*=\s*"([^"]+)"/.exec(toml)?.[1];
      const request = { name, toml, engine: 'sim', ...(first ? { variant: first } : {}) };
      const { detail, cells } = await compare(page, request);
      console.log(
        `${file} ${first ?? ''}: ${detail.summary.flows.length} flows, ${cells} equal cells, ${detail.summary.wall_s} s`,
      );
      expect(trouble).toEqual([]);
    });
  }

  test('of every congestion control, with losses, equal those of the program', async ({ browser }) => {
    test.setTimeout(180_000);
    const { page } = await visit(browser, address);
    for (const cc of ALGORITHMS) {
      const toml = gigabit('3s').replace('queue = "1000p"', 'queue = "400p", loss = "0.005%"').replace('"cubic"', `"${cc}"`);
      await compare(page, { name: `${cc}.toml`, toml, engine: 'sim' });
    }
  });

  test('of copies of one algorithm with different parameters equal those of the program', async ({ browser }) => {
    const { page } = await visit(browser, address);
    const flow = (name: string, a: number) =>
      `[[flows]]\nname = "${name}"\nfrom = "h1"\nto = "h2"\ncc = { name = "griddt", a = ${a}, backoff = 0.75 }\n`;
    const toml = gigabit('4s').replace(/\[\[flows\]\][^]*/, flow('one', 1) + flow('seven', 7));
    const { detail } = await compare(page, { name: 'griddt.toml', toml, engine: 'sim' });
    expect(detail.summary.flows.map((one) => one.cc_set)).toEqual([
      { a: 1, backoff: 0.75 },
      { a: 7, backoff: 0.75 },
    ]);
  });
});

test('the playground loads less than 3 MB, and a run of 10 s at 1 Gb/s is drawn', async ({ browser }) => {
  const { page, trouble } = await visit(browser, address);
  await page.goto('about:blank');
  await page.goto(link({ name: 'gigabit.toml', toml: gigabit('10s'), engine: 'sim' }));
  const detail = await computed(page);
  await rests(page);
  const files = ['playground.html', 'playground.js', 'playground.css', 'worker.js', 'playground.wasm'];
  const contents = files.map((file) => readFileSync(join(FOLDER, file)));
  const bytes = contents.reduce((sum, content) => sum + content.length, 0);
  const packed = contents.reduce((sum, content) => sum + gzipSync(content).length, 0);
  console.log(`loads ${bytes} bytes (${packed} with gzip); 10 s at 1 Gb/s computed in ${detail.summary.wall_s} s`);
  expect(bytes).toBeLessThan(MAX_LOADED_BYTES);
  expect(detail.summary.flows[0]?.verdict).not.toBeNull();
  await expect(page.locator('article.flow').first()).toContainText('Limited by');
  for (const panel of ['goodput', 'window', 'queue'])
    expect(await page.evaluate((id) => window.longfatDrawn?.[id]?.()[0]?.ys.length ?? 0, panel)).toBeGreaterThan(100);
  expect(trouble).toEqual([]);
});

test('form, text, result and address stay consistent', async ({ browser }) => {
  const { page, trouble } = await visit(browser, address);
  const first = await computed(page);
  await page.locator('input[name=rate]').fill('100mbit');
  await expect(page.locator('#toml')).toHaveValue(/rate = "100mbit"/);
  const goodput = async () => (await computed(page)).summary.flows[0]!.goodput_bps!;
  await expect.poll(goodput).toBeLessThan(first.summary.flows[0]!.goodput_bps! / 5);
  const shared = page.url();
  await page.getByRole('button', { name: 'Add a flow' }).click();
  await expect.poll(async () => (await computed(page)).summary.flows.length).toBe(2);

  const text = await page.locator('#toml').inputValue();
  await page.locator('#toml').fill(text.replace('delay =', 'dealy ='));
  await expect(page.locator('.mistake').first()).toContainText('scenario.toml:12:');
  await expect(page.locator('.mistake').first()).toContainText('did you mean "delay"?');
  await page.locator('#toml').fill(text);
  await expect(page.locator('.mistake')).toHaveCount(0);

  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download' }).click();
  const file = await (await download).path();
  expect(readFileSync(file, 'utf8')).toBe(text);

  const other = await visit(browser, shared);
  await expect.poll(async () => (await computed(other.page)).summary.flows[0]!.goodput_bps!).toBe(await goodputOf(shared));
  await expect(other.page.locator('#toml')).toHaveValue(/rate = "100mbit"/);
  expect([...trouble, ...other.trouble]).toEqual([]);

  async function goodputOf(url: string): Promise<number> {
    const { page } = await visit(browser, url);
    return (await computed(page)).summary.flows[0]!.goodput_bps!;
  }
});

test('the command of a shared scenario is one command, whatever its name is', async ({ browser }) => {
  const { page, trouble } = await visit(browser, link({ name: "it's; reboot.toml", toml: gigabit('1s'), engine: 'model' }));
  await computed(page);
  await expect(page.locator('code', { hasText: 'longfat run' })).toHaveText(`longfat run 'it'\\''s; reboot.toml' --engine model`);
  expect(trouble).toEqual([]);
});

test('a chart that is added after a stop does not prevent the next run from being drawn', async ({ browser }) => {
  const { page, trouble } = await visit(browser, address);
  await computed(page);
  await page.locator('input[name=duration]').fill('10000s');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('combobox', { name: 'Add a chart' }).selectOption('pacing_rate_bps');
  await page.locator('input[name=duration]').fill('2s');
  await expect.poll(async () => (await computed(page)).end_s).toBeLessThan(3);
  await expect.poll(async () => (await drawn(page, 'goodput'))[0]?.xs.at(-1) ?? Infinity).toBeLessThan(3);
  expect(trouble).toEqual([]);
});

test('the form suggests the congestion controls of the program', async ({ browser }) => {
  const { page, trouble } = await visit(browser, address);
  const own = (JSON.parse(site.longfat('--json', 'cc', 'list')) as { own: { name: string }[] }).own.map((one) => one.name);
  const suggested = page.locator('#values-cc option');
  await expect(suggested).toHaveCount(own.length);
  expect(await suggested.evaluateAll((options) => options.map((one) => (one as HTMLOptionElement).value))).toEqual(own);
  expect(own).toEqual(ALGORITHMS.toSorted());
  expect(trouble).toEqual([]);
});

test('charts of a computed run equal those of its record', async ({ browser }) => {
  const { page } = await visit(browser, address);
  const request = { name: 'charts.toml', toml: gigabit('4s').replace('queue = "1000p"', 'queue = "200p"'), engine: 'sim' };
  const { detail } = await compare(page, request);
  const measures = ['goodput', 'cwnd', 'ssthresh', 'rtt', 'rwnd', 'inflight', 'pacing', 'delivery_rate', 'retrans', 'srtt_us'];
  const links = ['queue', 'drops', 'link_rate'];
  const body = { from_s: 0, to_s: detail.end_s, columns: 4000, measures, link_measures: links, flows: [], links: [], trace: [] };
  const mine = await page.evaluate(async (body) => {
    const series = await window.longfatSeries?.({ run: '', ...body, causes: true, events: true });
    return series?.curves.map((curve) => ({ ...curve, xs: [...curve.xs], ys: [...curve.ys] }));
  }, body);
  const served = await visit(browser, await site.page());
  const records = await served.page.evaluate(
    async () => (await fetch('/api/runs')).json() as Promise<{ runs: { scenario: string; id: string }[] }>,
  );
  const record = records.runs.filter((one) => one.scenario === 'charts').pop()!;
  const theirs = await served.page.evaluate(
    async (body) => {
      const response = await fetch('/api/series', {
        method: 'POST',
        body: JSON.stringify({ ...body, causes: true, events: true }),
      });
      const buffer = await response.arrayBuffer();
      const length = new DataView(buffer).getUint32(0, true);
      const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
      let at = 4 + length;
      const floats = (count: number) => {
        const found = [...new Float64Array(buffer, at, count)];
        at += 8 * count;
        return found;
      };
      return head.curves.map((curve: { of: string; subject: string; measure: string; points: number; means: number }) => {
        const [xs, ys] = [floats(curve.points), floats(curve.points)];
        floats(2 * curve.means);
        return { of: curve.of, subject: curve.subject, measure: curve.measure, xs, ys };
      });
    },
    { run: `${record.scenario}/${record.id}`, ...body },
  );
  for (const curve of theirs) {
    const own = mine?.find((one) => one.subject === curve.subject && one.measure === curve.measure);
    const values = (curve: { xs: number[]; ys: number[] } | undefined) =>
      (curve?.xs ?? []).map((x, i) => [x, curve!.ys[i]!]).filter(([, y]) => y !== null && !Number.isNaN(y));
    expect(values(own), `${curve.subject} ${curve.measure}`).toEqual(values(curve));
  }
  expect(theirs.length).toBeGreaterThan(measures.length);
});

test('the playground can be used on a phone', async ({ browser }) => {
  const { page, trouble } = await visit(browser, address, { viewport: { width: 390, height: 844 } });
  await computed(page);
  await rests(page);
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(overflow).toBe(0);
  await page.locator('input[name=delay]').fill('40ms');
  await expect.poll(async () => (await computed(page)).summary.flows[0]!.min_rtt_us).toBeGreaterThan(49_000);
  expect(trouble).toEqual([]);
});

for (const [name, width] of [
  ['wide', 1400],
  ['narrow', 390],
] as const) {
  test(`picture ${name}`, async ({ browser }) => {
    test.skip(!process.env.LONGFAT_PLAYGROUND_PICTURES, 'LONGFAT_PLAYGROUND_PICTURES names no folder');
    const { page } = await visit(browser, address, { viewport: { width, height: 900 } });
    await computed(page);
    await rests(page);
    await page.screenshot({ path: join(process.env.LONGFAT_PLAYGROUND_PICTURES!, `playground-${name}.png`), fullPage: true });
  });
}
