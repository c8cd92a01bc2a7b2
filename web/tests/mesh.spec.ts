// The page of a mesh, served by `longfat agent demo`: the grid, a pair whose cause changes, calendars, and a narrow screen.
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@playwright/test';
import type { HourRow, MeshDocument, PairDocument } from '../src/mesh-api';
import { visit } from './site';

const LONGFAT = process.env.LONGFAT ?? '';
/** A directory for pictures. */
const PICTURES = process.env.LONGFAT_PICTURES_MESH;
/** Two rounds of tests after the fault, on a busy machine. */
const TIMEOUT = 600_000;

let demo: ChildProcess | undefined;
test.afterAll(async () => {
  if (!demo || demo.exitCode !== null) return;
  const ended = new Promise((done) => demo?.once('exit', done));
  demo.kill('SIGTERM');
  await ended;
});

/** The address of the page; null if this machine cannot run labs. */
function start(): Promise<string | null> {
  const child = spawn(LONGFAT, ['--json', 'agent', 'demo', '--fault-after', '95s'], { stdio: ['ignore', 'pipe', 'inherit'] });
  demo = child;
  return new Promise((done, failed) => {
    let text = '';
    child.stdout.on('data', (part) => {
      text += String(part);
      if (text.trim().endsWith('}')) done((JSON.parse(text) as { url: string }).url);
    });
    child.once('exit', (code) => (code === 4 ? done(null) : failed(new Error(`the demo ended with ${code}`))));
  });
}

test('the page names the cause of a fault, marks the change, and fits the screen of a phone', async ({ browser }) => {
  test.setTimeout((PICTURES ? 2 : 1) * TIMEOUT + 120_000);
  const url = await start();
  test.skip(url === null, 'needs the privilege to run labs');
  const { page, trouble } = await visit(browser, url ?? '');
  await expect(page.locator('table.grid tbody tr')).toHaveCount(6);
  // A pair that was also tested before the fault: its best goodput was higher.
  const worst = page.locator('.troubled li', { hasText: ', best ' }).filter({ hasText: 'to washington' }).first();
  await expect(worst).toContainText(/to washington: receive buffer of washington since \d\d:\d\d/, { timeout: TIMEOUT });
  const picture = async (name: string) => {
    if (!PICTURES) return;
    // The pointer is not on a link.
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(PICTURES, `agent-${name}.png`), fullPage: true });
  };
  // Pictures have all pairs that the fault limits.
  const limited = page.locator('.cell[data-state=limited]');
  await (PICTURES ? expect(limited).toHaveCount(5, { timeout: TIMEOUT }) : expect(limited).not.toHaveCount(0));
  await picture('mesh');

  await worst.getByRole('link').click();
  await expect(page.locator('h1')).toHaveText(/ to washington$/);
  const goodput = page.locator('.pair').first();
  // Before the fault the path's rate was the limit: the change is marked with both causes.
  await expect(goodput.locator('.mark')).toContainText(['receive buffer of washington']);
  await expect(goodput.locator('rect title')).toContainText(['rate of the path', 'receive buffer of washington']);
  await picture('pair');

  // The map: six points in four places at this scale; a link for each direction between two places, in the colour of its worst pair.
  await page.getByRole('link', { name: 'Map', exact: true }).click();
  await expect(page.locator('.map .name')).toHaveCount(4);
  await expect(page.locator('.map .link')).toHaveCount(12);
  await expect(page.locator('.map .link[data-state=limited]').first()).toHaveAttribute(
    'aria-label',
    /to washington: receive buffer of washington/,
  );
  await expect(page.locator('.troubled li').first()).toBeVisible();
  await picture('map');

  await page.getByRole('link', { name: 'Calendars' }).click();
  await expect(page.locator('.calendar[data-point]')).toHaveCount(6);
  await expect(page.locator('.calendar[data-point=busan] .slot').first()).toBeAttached({ timeout: 60_000 });
  await picture('calendars');

  // A phone: only elements that scroll by themselves are wider than the screen.
  await page.setViewportSize({ width: 390, height: 844 });
  for (const [address, name] of [
    ['#/', 'mesh-narrow'],
    ['#/pair/kashima/washington', null],
    ['#/calendar', null],
    ['#/map', 'map-narrow'],
  ] as const) {
    await page.goto(`${url}${address}`);
    await page.waitForTimeout(1000);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
    if (name) await picture(name);
  }

  // Old tests are means of an hour, one for each kind of test.
  await page.route(/\/api\/v1\/pair\?/, async (route) => {
    const response = await route.fetch();
    const pair = (await response.json()) as PairDocument;
    const hour: HourRow = {
      kind: 'latency',
      options: null,
      start_us: pair.now_us - 86_400e6,
      finished: 1,
      failed: 0,
      not_run: 0,
      goodput_bps: null,
      min_goodput_bps: null,
      max_goodput_bps: null,
      loss_share: null,
      min_rtt_us: 1000,
      typical_rtt_us: 1000,
      capacity_bps: null,
      min_capacity_bps: null,
      max_capacity_bps: null,
      available_bps: null,
      min_available_bps: null,
      max_available_bps: null,
      min_mtu_bytes: null,
      max_mtu_bytes: null,
      min_hops: null,
      max_hops: null,
      verdict: null,
    };
    const probes = { ...hour, kind: 'probe', min_rtt_us: null, capacity_bps: 1e9, available_bps: 8e8 };
    const sizes = { min_mtu_bytes: 1400, max_mtu_bytes: 1500 };
    const traces = { ...hour, kind: 'trace', min_rtt_us: null, ...sizes, min_hops: 6, max_hops: 7 };
    const hours = [hour, { ...hour, kind: 'throughput' }, probes, traces];
    await route.fulfill({ response, json: { ...pair, hours: route.request().url().includes('since_us=0&') ? hours : [] } });
  });
  await page.goto(`${url}#/pair/kashima/washington`);
  const means = page.locator('circle title', { hasText: 'of the hour' });
  await expect(means).toHaveCount(6);
  // Probes and traces have charts too.
  for (const [title, value] of [
    ['Smallest round-trip time', 'latency, smallest of the hour: 1.000 ms'],
    ['Available bandwidth', 'probe, mean of the hour: 800 Mb/s'],
    ['Capacity of the narrowest link', 'probe, mean of the hour: 1.00 Gb/s'],
    ['Path MTU, bytes', 'trace, smallest of the hour: 1,400'],
    ['Hops', 'trace, largest of the hour: 7'],
  ] as const) {
    const chart = page.locator('.pair', { has: page.getByText(title, { exact: true }) });
    await expect(chart.locator('circle title', { hasText: value })).toHaveCount(1);
  }

  // The reply for a span is not shown if it arrives after another one was chosen.
  await page.route(/since_us=0&/, async (route) => {
    await new Promise((done) => setTimeout(done, 1500));
    await route.fallback();
  });
  const late = await page.waitForRequest(/since_us=0&/);
  await page.getByRole('button', { name: '1 h', exact: true }).click();
  await expect(means).toHaveCount(0);
  await late.response();
  await page.waitForTimeout(200);
  expect(await means.count()).toBe(0);

  // A mute that ends in a month has its date: a weekday would be read as one of the next days.
  await page.route('**/api/v1/mesh', async (route) => {
    const response = await route.fetch();
    const mesh = (await response.json()) as MeshDocument;
    const pairs = mesh.pairs.map((pair) => ({ ...pair, muted_until_us: mesh.now_us + 30 * 86_400e6 }));
    await route.fulfill({ response, json: { ...mesh, pairs } });
  });
  await expect(page.locator('[data-alerts]')).toContainText(/alerts muted until \d{4}-\d\d-\d\d/);
  expect(trouble).toEqual([]);
  // The page polls the demo, which ends now.
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.context().close();
});
