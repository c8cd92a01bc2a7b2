import { defineConfig } from '@playwright/test';

// Debian's Chromium; nothing is downloaded. One worker: the records are made once, and the machine is small.
export default defineConfig({
  testDir: 'tests',
  testMatch: process.env.LONGFAT_LARGE ? '*.bench.ts' : '*.spec.ts',
  workers: 1,
  timeout: 60_000,
  reporter: 'list',
  use: {
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
    },
    viewport: { width: 1280, height: 900 },
  },
});
