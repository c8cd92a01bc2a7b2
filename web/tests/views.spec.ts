// The order and the folding of the list, views in the address, several browsers, many flows, gaps.
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import { drawCurve } from '../src/curves';
import { breakAt, gapsIn, pointsOf } from '../src/gaps';
import { drawn, open, rests, Site, span, visit } from './site';

let site: Site;
test.beforeAll(() => {
  test.setTimeout(180_000);
  site = new Site(false);
  site.simulate({ duration: '4s', delay: '10ms', queue: '50kB' }, 'reno', 'cubic');
  const file = join(site.dir, 'long.toml');
  const over = ['--over', 'links.h1-h2.forward.loss=0.1%,2%'];
  site.longfat('sweep', file, '--set', 'duration=1s', '--engine', 'sim', ...over, '--repeat', '3');
  site.longfat('run', join(import.meta.dirname, '../../scenarios/lab8.toml'), '--engine', 'model');
});
test.afterAll(() => site?.close());

test('the list is sorted by its headers, and repeats of a point are one expandable row', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  const rows = page.locator('table.runs tbody tr');
  // One run, two points of three repeats, two variants of the model.
  await expect(rows).toHaveCount(5);
  const folded = page.locator('tr[data-repeats="3"]');
  await expect(folded).toHaveCount(2);
  await expect(folded.first()).toContainText('3 repeats');
  await folded.first().getByRole('button', { name: '3 repeats' }).click();
  await expect(rows).toHaveCount(8);
  await folded.first().getByRole('button', { name: '3 repeats' }).click();
  await expect(rows).toHaveCount(5);
  await folded.first().getByRole('checkbox').check();
  await expect(page.getByRole('button', { name: 'Compare 3 runs' })).toBeEnabled();

  const goodputs = () =>
    rows.evaluateAll((all) =>
      all.map((row) => {
        const [value = '', unit = ''] = (row.querySelector('td.meter span')?.textContent ?? '').split(/\s/);
        return Number(value) * ({ 'Gb/s': 1e9, 'Mb/s': 1e6, 'kb/s': 1e3 }[unit] ?? 1);
      }),
    );
  const header = page.getByRole('columnheader', { name: 'Mean goodput' });
  await header.getByRole('button').click();
  await expect(header).toHaveAttribute('aria-sort', 'descending');
  const largestFirst = await goodputs();
  expect(largestFirst).toEqual([...largestFirst].sort((a, b) => b - a));
  await header.getByRole('button').click();
  expect(await goodputs()).toEqual([...largestFirst].reverse());
  // Filters stay, and order and filters are in the address.
  await page.getByRole('combobox', { name: 'Engine' }).selectOption('sim');
  await expect(rows).toHaveCount(3);
  await expect(page).toHaveURL(/#\/\?engine=sim&sort=goodput$/);
  await page.reload();
  await expect(rows).toHaveCount(3);
  await expect(header).toHaveAttribute('aria-sort', 'ascending');
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await expect(rows).toHaveCount(5);
  await expect(page).toHaveURL(/#\/$/);
  expect(trouble).toEqual([]);
});

test('an address opens the same view in a second browser, and Back works', async ({ browser }) => {
  const url = await site.page('--share-token');
  const { page, trouble } = await visit(browser, url);
  const key = site.key('sim');
  await open(page, key);
  const whole = await span(page);
  await expect(page).toHaveURL(new RegExp(`${key}$`));
  await page.getByRole('button', { name: 'Zoom in' }).click();
  await page.getByRole('combobox', { name: 'Add a chart' }).selectOption('pacing_rate_bps');
  await page.getByRole('button', { name: 'Remove the chart Queue' }).click();
  await page.getByRole('button', { name: 'cubic', exact: true }).click();
  await expect(page).toHaveURL(/from=1&to=3&chart=pacing_rate_bps&without=queue&hide=cubic/);
  const shown = await span(page);

  const second = await visit(browser, url + new URL(page.url()).hash);
  await expect(second.page.locator('[data-panel=pacing_rate_bps]')).toBeVisible();
  await expect(second.page.locator('[data-panel=queue]')).toHaveCount(0);
  await expect(second.page.getByRole('button', { name: 'cubic', exact: true })).toHaveAttribute('aria-pressed', 'false');
  expect(await span(second.page)).toEqual(shown);
  expect(second.page.url()).not.toContain('token');

  // Changes within a second are one step, so the number of steps depends on the machine.
  let steps = 0;
  do {
    await page.goBack();
    steps++;
  } while (page.url().includes('?') && steps < 4);
  await expect.poll(() => span(page)).toEqual(whole);
  await expect(page.locator('[data-panel=queue]')).toBeVisible();
  await expect(page.locator('[data-panel=pacing_rate_bps]')).toHaveCount(0);
  for (let step = 0; step < steps; step++) await page.goForward();
  await expect.poll(() => span(page)).toEqual(shown);
  expect([...trouble, ...second.trouble]).toEqual([]);
});

test('a chart that is added while samples are loading shows its samples', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  await open(page, site.key('sim'));
  await page.route('**/api/series', async (route) => {
    await new Promise((done) => setTimeout(done, 500));
    await route.continue();
  });
  const add = page.getByRole('combobox', { name: 'Add a chart' });
  await add.selectOption('pacing_rate_bps');
  await add.selectOption('srtt_us');
  await expect.poll(async () => (await drawn(page, 'srtt_us')).length).toBeGreaterThan(0);
  expect(trouble).toEqual([]);
});

test('1 RTT shows one minimum RTT', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  await open(page, site.key('sim'));
  await page.getByRole('button', { name: '1 RTT' }).click();
  const { from, to } = await span(page);
  const document = JSON.parse(site.longfat('--json', 'show', site.key('sim'))) as { runs: { flows: { min_rtt_us: number }[] }[] };
  expect(to - from).toBeCloseTo(Math.min(...document.runs[0]!.flows.map((flow) => flow.min_rtt_us)) / 1e6, 6);
});

test('many flows are preceded by a summary, and have distinct colours', async ({ browser }) => {
  const own = new Site(false);
  try {
    own.simulate(
      { duration: '2s', delay: '5ms', queue: '30kB' },
      ...Array.from({ length: 20 }, (_, i) => ['reno', 'cubic', 'bbr'][i % 3]!),
    );
    const { page, trouble } = await visit(browser, await own.page());
    await open(page, own.key('sim'));
    const flows = page.locator('table.flow-shares tbody tr');
    await expect(flows).toHaveCount(20);
    await expect(page.locator('p.flow-shares')).toContainText('20 flows received');
    await expect(page.locator('p.flow-shares')).toContainText('Fairness (Jain)');
    const top = async (of: string) => (await page.locator(of).first().boundingBox())!.y;
    expect(await top('table.flow-shares')).toBeLessThan(await top('article.flow'));
    const colours = await flows
      .locator('td:first-child .swatch')
      .evaluateAll((all) => all.map((one) => getComputedStyle(one).backgroundColor));
    expect(new Set(colours).size).toBe(20);
    expect(trouble).toEqual([]);
  } finally {
    own.close();
  }
});

test('a comparison names the scenarios and states that they differ', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  await open(page, site.key('sim'), site.key('model', 'tuned'));
  await expect(page.getByText('These runs are of 2 scenarios')).toBeVisible();
  await expect(page.locator('.compared li').nth(1)).toContainText('BDP and TCP buffer size');
  await expect(page.locator('.compared li').nth(1)).toContainText('lab8 · variant tuned · model');
  await expect(page.locator('table.compare thead')).toContainText('lab8 tuned');
  await open(page, site.key('model', 'default'), site.key('model', 'tuned'));
  await expect(page.getByText('These runs are of')).toHaveCount(0);
  expect(trouble).toEqual([]);
});

test('published figures name their source', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  await page.getByRole('link', { name: 'Published' }).click();
  await expect(page.locator('.source')).toHaveText(/^L8-default, L8-tuned: University of South Carolina, .*Lab 8, 2019$/);
});

test('figures of several kinds of one metric have separate rows', async ({ browser }) => {
  const own = new Site(false);
  try {
    own.longfat('run', join(import.meta.dirname, '../../scenarios/g-mtufair.toml'), '--engine', 'model');
    const { page, trouble } = await visit(browser, await own.page());
    // The printed utilization, and the sum of the printed averages.
    const rows = page.locator('table.published tbody tr', { hasText: 'G-griddt-mtu' }).filter({ hasText: 'run.goodput' });
    await page.getByRole('link', { name: 'Published' }).click();
    await expect(rows).toHaveCount(2);
    await open(page, own.key('model', 'griddt'));
    await expect(rows).toHaveCount(2);
    expect(trouble).toEqual([]);
  } finally {
    own.close();
  }
});

for (const width of [390, 1400]) {
  test(`nothing is clipped at ${width} pixels, and the verdict comes before the network`, async ({ browser }) => {
    const { page } = await visit(browser, await site.page(), { viewport: { width, height: 844 } });
    const views = [
      '#/',
      '#/sweeps',
      '#/published',
      `#/run/${site.key('sim')}`,
      `#/run/${site.key('sim')}&${site.key('model', 'tuned')}`,
    ];
    for (const view of views) {
      await page.goto(`${new URL(page.url()).origin}/${view}`);
      await page.waitForLoadState('networkidle');
      const clipped = await page.evaluate(() =>
        [document.documentElement, ...document.querySelectorAll('.scroll, .card, .charts')]
          .filter((one) => one.scrollWidth > one.clientWidth + 1)
          .map((one) => `${one.tagName} ${one.className} ${one.scrollWidth} > ${one.clientWidth}`),
      );
      expect(clipped, view).toEqual([]);
    }
    await open(page, site.key('sim'));
    const [card, net] = [await page.locator('article.flow').first().boundingBox(), await page.locator('.net').boundingBox()];
    if (width === 390) expect(card!.y).toBeLessThan(net!.y);
  });
}

test('each command of a remedy can be copied without its reason', async ({ browser }) => {
  const url = await site.page();
  const { page } = await visit(browser, url, { permissions: ['clipboard-read', 'clipboard-write'] });
  const fixes = [
    { host: 'h2', command: 'sysctl -w net.ipv4.tcp_rmem="4096 131072 50331648"', reason: 'The receive window was full.' },
    { host: 'h1', command: 'sysctl -w net.ipv4.tcp_wmem="4096 16384 50331648"', reason: 'The send buffer was full.' },
  ];
  await page.route('**/api/open', async (route) => {
    const details = (await (await route.fetch()).json()) as { summary: { flows: object[] } }[];
    Object.assign(details[0]!.summary.flows[0]!, { fixes, remedy: 'the text of earlier versions' });
    await route.fulfill({ json: details });
  });
  await open(page, site.key('sim'));
  const card = page.locator('article.flow').filter({ has: page.locator('.fix') });
  await expect(card.locator('.fix code')).toHaveText(fixes.map((fix) => fix.command));
  await expect(card.locator('.fix-head').first()).toHaveText(/h2\s+The receive window was full\./);
  await expect(card).not.toContainText('the text of earlier versions');
  await card.getByRole('button', { name: 'Copy the command for h1' }).click();
  await expect(card.getByRole('button', { name: 'Copy the command for h1' })).toHaveText('Copied');
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(fixes[1]!.command);
  await expect(card.locator('.got')).toContainText(/steady goodput\s*mean /);
});

test('missing samples interrupt the lines and are marked', async ({ browser }) => {
  const port = site.serve();
  await new Promise((done) => setTimeout(done, 500));
  const running = site.start('test', '127.0.0.1', '-p', port, '-t', '6');
  const ended = new Promise((done) => running.on('exit', done));
  await new Promise((done) => setTimeout(done, 2500));
  running.kill('SIGSTOP');
  await new Promise((done) => setTimeout(done, 2000));
  running.kill('SIGCONT');
  await ended;
  const { page, trouble } = await visit(browser, await site.page());
  await open(page, site.key('test'));
  const figure = page.locator('[data-panel=window]');
  expect(Number(await figure.getAttribute('data-gaps'))).toBeGreaterThan(0);
  await expect(figure).toContainText('no samples');
  const cwnd = (await drawn(page, 'window')).find((curve) => curve.measure === 'cwnd')!;
  const breaks = cwnd.ys.flatMap((y, i) => (y === null || Number.isNaN(y) ? [cwnd.xs[i]!] : []));
  expect(breaks.length).toBeGreaterThan(0);
  await rests(page);
  expect(trouble).toEqual([]);
});

test('samples without a value interrupt the line, and a single value between gaps is a dot', () => {
  const ys = [NaN, 1, 2, NaN, NaN, 3, NaN, 4, 5, NaN];
  const points = pointsOf(ys.map((y, x) => [x, y] as [number, number]));
  expect([...points.xs]).toEqual([1, 2, 3, 5, 6, 7, 8, 9]);
  expect([...points.ys]).toEqual([1, 2, NaN, 3, NaN, 4, 5, NaN]);
  const calls: string[] = [];
  const record = (name: string) => (x?: number) => calls.push(x === undefined ? name : `${name} ${Math.floor(x / 10)}`);
  const names = ['save', 'restore', 'setLineDash', 'beginPath', 'stroke', 'moveTo', 'lineTo', 'fillRect'];
  const context = Object.fromEntries(names.map((name) => [name, record(name)])) as unknown as CanvasRenderingContext2D;
  const view = { context, from: 0, to: 10, x: (x: number) => 10 * x + 5, y: (y: number) => y, ratio: 1 };
  drawCurve(view, points, { colour: '', width: 1, dash: [], alpha: 1 });
  const lines = calls.filter((call) => /^(moveTo|lineTo|fillRect) \d/.test(call));
  expect(lines).toEqual(['moveTo 1', 'lineTo 2', 'moveTo 5', 'fillRect 5', 'moveTo 7', 'lineTo 8']);
});

test('a gap is much longer than the typical distance of samples', () => {
  const xs = Float64Array.from([...Array(30).keys()].map((i) => i / 10 + (i >= 15 ? 2 : 0)));
  const points = { xs, ys: xs.map(() => 1) };
  const gaps = gapsIn(points);
  expect(gaps).toEqual([{ from: xs[14], to: xs[15] }]);
  const broken = breakAt(points, gaps);
  expect([...broken.ys].map(Number.isNaN).indexOf(true)).toBe(15);
  expect(broken.xs.length).toBe(31);
  expect(broken.xs[15]).toBe(xs[14]);
  // Even distances, few samples, and a slow pair in a dense column give no gap.
  expect(gapsIn({ xs: Float64Array.from([...Array(30).keys()]), ys: xs })).toEqual([]);
  expect(gapsIn({ xs: Float64Array.from([0, 1, 2, 50]), ys: xs })).toEqual([]);
});
