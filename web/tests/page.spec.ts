import { expect, type Page, test } from '@playwright/test';
import { drawn, isModel, open, rests, Site, span, values, visit } from './site';

let site: Site;
test.beforeAll(() => {
  test.setTimeout(180_000);
  site = new Site();
});
test.afterAll(() => site?.close());

test('the list has every run and can be searched', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  const rows = page.locator('table.runs tbody tr');
  await expect(rows).toHaveCount((JSON.parse(site.longfat('--json', 'ls')) as unknown[]).length);
  await page.getByRole('combobox', { name: 'Engine' }).selectOption('model');
  await expect(rows).toHaveCount(2);
  await page.getByRole('searchbox').fill('reno');
  await expect(rows).toHaveCount(1);
  await page.getByRole('searchbox').fill('no such thing');
  await expect(page.getByText('No run matches.')).toBeVisible();
  await page.getByRole('searchbox').fill('');
  await page.getByRole('searchbox').press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await expect(page.locator('h1')).toHaveText('Two round-trip times');
  expect(trouble).toEqual([]);
});

test('the worker of a new run ends when another view is opened', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  await expect(page.locator('table.runs tbody tr').first()).toBeVisible();
  const tab = page.getByRole('link', { name: 'New run', exact: true });
  test.skip(!(await tab.isVisible()), 'the playground is not built (scripts/playground.sh build)');
  await tab.click();
  await expect(page.locator('.state')).toContainText('Computed in');
  expect(page.workers()).toHaveLength(1);
  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await expect.poll(() => page.workers().length).toBe(0);
});

test('an address with a wrong encoding opens the page', async ({ browser }) => {
  const address = new URL(await site.page());
  address.hash = '/run/lab8/%';
  const { page } = await visit(browser, address.href);
  await expect(page.getByRole('alert')).toBeVisible();
});

for (const engine of ['sim', 'model', 'lab', 'test']) {
  test(`a record of ${engine} is drawn with its measured values`, async ({ browser }) => {
    test.skip(engine === 'lab' && !site.hasLab, 'this machine cannot make a lab');
    const { page, trouble } = await visit(browser, await site.page());
    const key = site.key(engine);
    await open(page, key);
    const summary = site.summary(key);
    if (isModel(key)) {
      await expect(page.getByText('figures but no samples')).toBeVisible();
    } else {
      expect(values((await drawn(page, 'goodput'))[0]).length).toBeGreaterThan(3);
      const rtt = values((await drawn(page, 'rtt'))[0]);
      const cwnd = values((await drawn(page, 'window')).find((curve) => curve.measure === 'cwnd'));
      expect(Math.max(...cwnd)).toBe(summary.max_cwnd_bytes);
      // The summary of a test has the counts at its end, which is later than its last row.
      const again = engine === 'test' ? site.largest(key, 'total_retrans_segs') : summary.retransmitted_segs;
      if (again > 0) expect(Math.max(...values((await drawn(page, 'retrans'))[0]))).toBe(again);
      expect(again).toBeLessThanOrEqual(summary.retransmitted_segs);
      expect(Math.max(...rtt)).toBeCloseTo(summary.max_rtt_us / 1e6, 6);
    }
    const card = page.locator('article.flow').first();
    await expect(card).toContainText('b/s');
    if (engine !== 'test') await expect(page.locator('svg [class^=node], svg .node')).toHaveCount(3);
    expect(trouble).toEqual([]);
  });
}

test('zoom by wheel, drag, buttons and keys, down to one round trip and back', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  await open(page, site.key('sim', 'cubic'));
  const whole = await span(page);
  expect(whole.from).toBe(0);
  expect(whole.to).toBeGreaterThanOrEqual(4);
  const plot = page.locator('[data-panel=window] .u-over');
  const box = (await plot.boundingBox())!;
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };

  await page.mouse.move(middle.x, middle.y);
  await page.mouse.wheel(0, -300);
  await expect.poll(async () => (await span(page)).to - (await span(page)).from).toBeLessThan(whole.to * 0.75);

  await page.keyboard.press('0');
  const drag = async () => {
    await page.mouse.move(box.x + box.width * 0.25, middle.y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, middle.y, { steps: 5 });
    await page.mouse.up();
    await expect.poll(async () => (await span(page)).to).toBeCloseTo(whole.to / 2, 1);
    expect((await span(page)).from).toBeCloseTo(whole.to / 4, 1);
  };
  await drag();
  await page.keyboard.press('Escape');
  expect(await span(page)).toEqual(whole);
  await drag();

  const before = await span(page);
  await page.keyboard.press('ArrowRight');
  expect((await span(page)).from).toBeCloseTo(before.from + (before.to - before.from) / 4, 3);
  await page.keyboard.press('r');
  const close = await span(page);
  expect(close.to - close.from).toBeLessThan(0.2);
  // At this zoom level the samples are drawn: they are 10 ms apart, so 20 ms have two.
  await expect
    .poll(async () => {
      const xs = (await drawn(page, 'window'))
        .find((curve) => curve.measure === 'cwnd')!
        .xs.filter((x) => x >= close.from && x <= close.to);
      return xs.length;
    })
    .toBeGreaterThan((close.to - close.from) / 0.0125 - 1);
  await page.keyboard.press('Escape');
  expect((await span(page)).to - (await span(page)).from).toBeGreaterThan(close.to - close.from);
  await page.getByRole('button', { name: 'Whole' }).click();
  expect(await span(page)).toEqual(whole);
  expect(trouble).toEqual([]);
});

test('zooming does not change the samples', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  await open(page, site.key('sim', 'reno'));
  const curve = async () => (await drawn(page, 'rtt'))[0]!;
  const all = await curve();
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.keyboard.press('+');
  await page.keyboard.press('+');
  await page.waitForTimeout(500);
  const zoomed = await curve();
  const known = new Map(all.xs.map((x, i) => [x, all.ys[i]]));
  const shared = zoomed.xs.filter((x) => known.has(x));
  expect(shared.length).toBeGreaterThan(10);
  for (const x of shared) expect(zoomed.ys[zoomed.xs.indexOf(x)]).toBe(known.get(x));
});

test('scaled pictures are redrawn when the span stops moving', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  await open(page, site.key('sim', 'cubic'));
  const picture = () => page.locator('[data-panel=window] canvas').evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const farther = () => page.locator('[data-panel=queue] canvas').evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const [whole, farWhole] = [await picture(), await farther()];
  const box = (await page.locator('[data-panel=window] .u-over').boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  // In the meantime a scaled picture is shown: neither the old one nor the final one.
  const moving = await page.locator('[data-panel=window]').evaluate(async (panel) => {
    const over = panel.querySelector('.u-over')!;
    const { x, y, width } = over.getBoundingClientRect();
    over.dispatchEvent(
      new WheelEvent('wheel', { deltaY: -100, clientX: x + width / 2, clientY: y + 20, bubbles: true, cancelable: true }),
    );
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return panel.querySelector('canvas')!.toDataURL();
  });
  expect(moving).not.toBe(whole);
  await rests(page);
  await page.waitForTimeout(1000);
  await rests(page);
  const rested = await picture();
  expect(rested).not.toBe(moving);
  // Charts below the visible part of the page, too.
  expect(await farther()).not.toBe(farWhole);
  // A redraw, caused by switching the theme to dark and back, gives the same picture.
  await page.emulateMedia({ colorScheme: 'dark' });
  await expect.poll(picture).not.toBe(rested);
  await page.emulateMedia({ colorScheme: 'light' });
  await expect.poll(picture).toBe(rested);
  expect(trouble).toEqual([]);
});

/** Compares the picture of a chart's first curve with its samples: each column of pixels ranges from minimum to maximum. */
async function compare(page: Page, panel: string) {
  const [curve] = await drawn(page, panel);
  const figure = page.locator(`[data-panel=${panel}]`);
  const colour = await figure.locator('.key line').first().getAttribute('stroke');
  // The first and the last row that has the curve's colour.
  const rows = await figure.evaluate((figure, colour) => {
    const canvas = figure.querySelector('canvas')!;
    const { offsetLeft, offsetTop, offsetWidth: width, offsetHeight: height } = figure.querySelector<HTMLElement>('.u-over')!;
    const { data } = canvas.getContext('2d')!.getImageData(offsetLeft, offsetTop, width, height);
    const wanted = [1, 3, 5].map((at) => parseInt(colour!.slice(at, at + 2), 16));
    const has = (x: number, y: number) =>
      wanted.every((part, i) => Math.abs(data[4 * (y * width + x) + i]! - part) < 100) && data[4 * (y * width + x) + 3]! > 150;
    return Array.from({ length: width }, (_, x) => {
      const found = Array.from({ length: height }, (_, y) => y).filter((y) => has(x, y));
      return { top: found[0]!, bottom: found.at(-1)! };
    });
  }, colour);
  const { to } = await span(page);
  const columns = rows.map(() => [] as number[]);
  curve!.xs.forEach((x, i) => columns[Math.floor((x / to) * rows.length)]?.push(curve!.ys[i]!));
  expect(curve!.xs.length).toBeGreaterThan(1.5 * rows.length);
  // The axis's scale, from the maximum and the minimum of all values.
  const all = values(curve);
  const [high, low] = [Math.max(...all), Math.min(...all)];
  const highest = rows[columns.findIndex((of) => of.includes(high))]!.top;
  const lowest = rows[columns.findIndex((of) => of.includes(low))]!.bottom;
  expect(lowest - highest).toBeGreaterThan(50);
  const row = (value: number) => highest + ((high - value) / (high - low)) * (lowest - highest);
  columns.forEach((of, column) => {
    if (of.length === 0) return;
    expect(rows[column]!.top).toBeLessThan(row(Math.max(...of)) + 2);
    expect(rows[column]!.bottom).toBeGreaterThan(row(Math.min(...of)) - 2);
  });
}

test('no peak is lost if samples are denser than pixels', async ({ browser }) => {
  const long = new Site(false);
  try {
    // More samples than a screen has pixels.
    long.simulate({ duration: '60s', delay: '10ms', queue: '20kB' }, 'reno');
    const { page, trouble } = await visit(browser, await long.page());
    await open(page, long.key('sim'));
    for (const panel of ['rtt', 'queue']) await compare(page, panel);
    expect(trouble).toEqual([]);
  } finally {
    long.close();
  }
});

test('runs are compared in the same charts', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  const keys = [site.key('sim', 'cubic'), site.key('sim', 'reno'), site.key('model', 'reno')];
  for (const key of keys) await page.getByRole('checkbox', { name: `Mark ${key}`, exact: true }).check();
  await page.getByRole('button', { name: 'Compare 3 runs' }).click();
  await expect.poll(async () => (await drawn(page, 'goodput')).filter((curve) => !curve.faint).length).toBe(2);
  const labels = (await drawn(page, 'goodput')).filter((curve) => !curve.faint).map((curve) => curve.label);
  expect(labels.sort()).toEqual(['cubic sim', 'reno sim']);
  const table = page.locator('table.figures').first();
  await expect(table.locator('thead th')).toHaveCount(5);
  await expect(table).toContainText('×');
  const cubic = values((await drawn(page, 'window')).find((curve) => curve.label === 'cubic sim'));
  expect(Math.max(...cubic)).toBe(site.summary(keys[0]!).max_cwnd_bytes);
  expect(trouble).toEqual([]);
});

test('a traced flow has a time-sequence graph, other flows a hint on tracing', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  await open(page, site.key('sim', 'reno'));
  const lines = await drawn(page, 'trace');
  const by = (name: string) => values(lines.find((curve) => curve.measure === name));
  expect(lines.map((curve) => curve.measure)).toEqual(['sent', 'retransmitted', 'acknowledged', 'window_end']);
  expect(Math.max(...by('acknowledged'))).toBeLessThanOrEqual(Math.max(...by('sent')) + 65_536);
  expect(by('retransmitted').length > 0).toBe(site.summary(site.key('sim', 'reno')).retransmitted_segs > 0);
  await open(page, site.key('test'));
  await expect(page.getByText('A time-sequence graph needs a trace of segments')).toBeVisible();
});

test('the theme follows the system and can be switched', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page(), { colorScheme: 'dark' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.keyboard.press('t');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light');
  const light = await ground();
  expect(light).not.toBe(dark);
  await page.reload();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'light');
  await page.keyboard.press('t');
  expect(await ground()).toBe(dark);
  expect(trouble).toEqual([]);
});

test('sweeps are shown as a curve with the knee, or as a map', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  await page.getByRole('link', { name: 'Sweeps' }).click();
  const cards = page.locator('.sweep-card');
  await expect(cards).toHaveCount(2);
  await expect(cards.filter({ hasText: 'send_buffer' }).locator('circle.point')).toHaveCount(5);
  await expect(page.getByText(/sim cubic: knee at send_buffer[^]*the window law \(plateau x loaded RTT/)).toBeVisible();
  const map = cards.filter({ hasText: 'forward.loss' });
  await expect(map.locator('rect')).toHaveCount(9);
  await map.locator('a').first().click();
  await expect(page.locator('h1')).toBeVisible();
  expect(trouble).toEqual([]);
});

test('a run in progress appears and grows, and is complete at its end', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page());
  const before = (JSON.parse(site.longfat('--json', 'ls')) as unknown[]).length;
  const port = String(20_000 + (process.pid % 20_000));
  const running = site.start('test', '127.0.0.1', '-p', port, '-t', '8');
  const rows = page.locator('table.runs tbody tr');
  await expect(rows).toHaveCount(before + 1, { timeout: 15_000 });
  await expect(rows.first()).toContainText('partial');
  await rows.first().getByRole('link').click();
  await expect(page.locator('[data-live]')).toContainText('running');
  const first = (await span(page)).to;
  await expect.poll(async () => (await span(page)).to, { timeout: 15_000 }).toBeGreaterThan(first);
  await new Promise((done) => running.on('exit', done));
  await expect(page.locator('[data-live]')).toHaveCount(0, { timeout: 15_000 });
  expect((await span(page)).to).toBeGreaterThan(7.5);
  expect(trouble).toEqual([]);
});

test('a narrow screen needs no horizontal scrolling, and the layout is stable', async ({ browser }) => {
  const { page, trouble } = await visit(browser, await site.page(), { viewport: { width: 390, height: 844 } });
  const sideways = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(await sideways()).toBe(0);
  await open(page, site.key('sim', 'cubic'));
  expect(await sideways()).toBe(0);
  const jumped = await page.evaluate(
    () =>
      new Promise<number>((done) => {
        let sum = 0;
        new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) sum += (entry as PerformanceEntry & { value: number }).value;
        }).observe({ type: 'layout-shift', buffered: true });
        setTimeout(() => done(sum), 300);
      }),
  );
  expect(jumped).toBeLessThan(0.1);
  expect(trouble).toEqual([]);
});

test('every control has an accessible name, and there is keyboard help', async ({ browser }) => {
  const { page } = await visit(browser, await site.page());
  for (const place of ['list', 'run']) {
    if (place === 'run') await open(page, site.key('sim', 'cubic'));
    const nameless = await page.evaluate(() =>
      [...document.querySelectorAll('button, a, select, input, svg[role=img], figure')]
        .filter(
          (one) =>
            !(
              one.getAttribute('aria-label') ||
              one.textContent?.trim() ||
              one.getAttribute('placeholder') ||
              one.closest('label')
            ),
        )
        .map((one) => one.outerHTML),
    );
    expect(nameless).toEqual([]);
  }
  await page.keyboard.press('?');
  await expect(page.getByRole('dialog')).toContainText('one round trip');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toHaveCount(0);
});

test('the address is valid for one browser, and the named run is open', async ({ browser }) => {
  const url = await site.page(site.key('sim', 'reno'));
  const { page } = await visit(browser, url);
  await expect(page).toHaveURL(/#\/run\/pair\//);
  const other = await (await browser.newContext()).newPage();
  const answer = await other.goto(url);
  expect(answer?.status()).toBe(403);
  await expect(other.getByText('`longfat view --share-token`')).toBeVisible();
});
