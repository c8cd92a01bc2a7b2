// The built site of the documentation, opened as files in a browser without a network: its search works, and nothing is requested from
// other hosts.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@playwright/test';

const FOLDER = process.env.LONGFAT_SITE ?? join(resolve(import.meta.dirname, '../..'), 'target/site/html');

test.skip(!existsSync(join(FOLDER, 'index.html')), `${FOLDER} has no site: make site`);

for (const file of ['index.html', 'docs/tutorials/first-ten-minutes.html']) {
  test(`the search of ${file} works without a network`, async ({ browser }) => {
    const context = await browser.newContext({ offline: true });
    const page = await context.newPage();
    const elsewhere: string[] = [];
    page.on('request', (request) => {
      if (/^(https?|wss?):/.test(request.url())) elsewhere.push(request.url());
    });
    await page.goto(pathToFileURL(join(FOLDER, file)).href);
    const input = page.locator('.md-search__input');
    await input.click();
    await input.fill('bandwidth-delay product');
    const results = page.locator('.md-search-result__link');
    await expect(results.first()).toBeVisible({ timeout: 30_000 });
    await results.first().click();
    await expect(page.locator('h1').first()).toBeVisible();
    expect(page.url()).toMatch(/^file:.*\.html/);
    expect(elsewhere).toEqual([]);
    await context.close();
  });
}
