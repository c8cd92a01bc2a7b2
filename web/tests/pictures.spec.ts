// Takes the pictures of docs/view.md for `scripts/web.sh pictures`, which executes the runs.
import { execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { test } from '@playwright/test';
import { visit } from './site';

const LONGFAT = process.env.LONGFAT ?? '';
const RUNS = process.env.LONGFAT_PICTURES ?? '';
const DOCS = join(import.meta.dirname, '../../docs');

interface Listed {
  scenario: string;
  id: string;
  engine: string;
  variant: string | null;
  sweep: string[];
}

test('pictures', async ({ browser }) => {
  test.skip(!RUNS, 'runs only in scripts/web.sh pictures');
  test.setTimeout(180_000);
  const all = JSON.parse(execFileSync(LONGFAT, ['--runs', RUNS, '--json', 'ls'], { encoding: 'utf8' })) as Listed[];
  const key = (scenario: string, engine: string, variant?: string) => {
    const found = all
      .filter((run) => run.scenario === scenario && run.engine === engine && (!variant || run.variant === variant))
      .pop();
    if (!found) throw new Error(`no run of ${scenario} by ${engine}`);
    return `${found.scenario}/${found.id}`;
  };
  const server = spawn(LONGFAT, ['--runs', RUNS, '--json', 'view', '--no-open'], { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const url = await new Promise<string>((done) => {
      let text = '';
      server.stdout.on('data', (part) => {
        text += String(part);
        if (text.trim().endsWith('}')) done((JSON.parse(text) as { url: string }).url);
      });
    });
    const { page } = await visit(browser, url);
    const show = async (place: string, file: string, before?: () => Promise<void>, full = false) => {
      await page.goto(`${new URL(url).origin}/${place}`);
      await page.waitForLoadState('networkidle');
      await page.waitForTimeout(800);
      await before?.();
      await page.waitForTimeout(600);
      await page.screenshot({ path: join(DOCS, file), fullPage: full });
    };
    const hover = (share: number) => async () => {
      const box = await page.locator('[data-panel=goodput] .u-over').boundingBox();
      if (box) await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
    };
    await show('#/', 'view-list.png');
    await show(`#/run/${key('lab8', 'lab', 'default')}`, 'view-run.png', hover(0.6));
    await show(
      `#/run/${key('lab8', 'lab', 'default')}&${key('lab8', 'lab', 'tuned')}&${key('lab8', 'sim', 'tuned')}`,
      'view-compare.png',
    );
    // The first segments that CoDel drops, of a flow that started at 3 of 15 s.
    await show(`#/run/${key('dsl', 'sim', 'fq-codel')}`, 'view-trace.png', async () => {
      await page.locator('[data-panel=trace]').scrollIntoViewIfNeeded();
      const box = await page.locator('[data-panel=trace] .u-over').boundingBox();
      if (!box) return;
      await page.mouse.move(box.x + box.width * 0.221, box.y + 100);
      for (let i = 0; i < 8; i++) await page.mouse.wheel(0, -120);
      await page.mouse.move(box.x + box.width * 0.5, box.y + 10);
    });
    await show('#/sweeps', 'view-sweeps.png');
    await page.emulateMedia({ colorScheme: 'dark' });
    await show(`#/run/${key('g-rttfair-short', 'sim', 'reno')}`, 'view-dark.png', hover(0.45));
    await page.setViewportSize({ width: 390, height: 844 });
    await page.emulateMedia({ colorScheme: 'light' });
    await show(`#/run/${key('g-rttfair-short', 'sim', 'griddt')}`, 'view-narrow.png');
  } finally {
    server.kill('SIGINT');
  }
});
