// The page's performance with large records: a simulation of 7000 s and a capture of 100 MB. `scripts/web.sh bench`.
// Prints the time until all charts are drawn, and the frame times while the wheel zooms and moves; in a second, traced pass the
// processor time of the page's main thread per frame, which other processes do not affect.
import { closeSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type Page, expect, test } from '@playwright/test';
import { drawn, rests, Site, visit } from './site';

const CAPTURE_BYTES = 100e6;
/** Duration of one screen refresh at 60 a second, ms, and the tolerated lateness of a timer. */
const FRAME_MS = 1000 / 60;
const LATE_MS = 1;

let site: Site;
test.beforeAll(() => {
  test.setTimeout(900_000);
  site = new Site(false);
});
test.afterAll(() => site?.close());

test('a simulation of 7000 s', async ({ browser }) => {
  test.setTimeout(900_000);
  const begun = Date.now();
  site.simulate({ duration: '7000s', delay: '50ms', queue: '100kB' }, 'reno', 'cubic');
  console.log(`simulated in ${((Date.now() - begun) / 1000).toFixed(0)} s`);
  const { page, trouble } = await visit(browser, await site.page());
  await look(browser, page, site.key('sim'));
  expect(trouble).toEqual([]);
});

test('a capture of 100 MB', async ({ browser }) => {
  test.setTimeout(900_000);
  const file = join(site.dir, 'large.pcap');
  capture(file);
  const begun = Date.now();
  site.longfat('import', 'pcap', file);
  console.log(`imported in ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  rmSync(file);
  const { page, trouble } = await visit(browser, await site.page());
  await look(browser, page, site.key('pcap'));
  expect(trouble).toEqual([]);
});

type What = 'nothing' | 'zoom' | 'move';

/** Opens a record, zooms and moves; prints the durations. */
async function look(browser: Browser, page: Page, key: string) {
  const begun = Date.now();
  await page.goto(`${new URL(page.url()).origin}/#/run/${key}`);
  await expect.poll(async () => (await drawn(page, 'goodput')).length, { intervals: [20] }).toBeGreaterThan(0);
  await rests(page);
  console.log(`${key}: all charts after ${Date.now() - begun} ms`);

  // Counts only charts on the screen.
  await page.evaluate(() => scrollTo(0, document.querySelector('.tools')!.getBoundingClientRect().top - 44));
  for (const what of ['nothing', 'zoom', 'move'] as What[]) {
    await whole(page);
    const apart = await frames(page, what);
    await whole(page);
    await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] });
    await frames(page, what);
    const trace = JSON.parse((await browser.stopTracing()).toString('utf8')) as { traceEvents: TraceEvent[] };
    const busy = busyIn(trace.traceEvents);
    console.log(`${what}: ${spread(apart)}; ${share(apart, FRAME_MS + LATE_MS)} of ${apart.length} frames at 60 a second`);
    console.log(
      `${what}: main thread ${spread(busy)}; fits into 60 a second in ${share(busy, FRAME_MS)} of ${busy.length} frames`,
    );
  }
}

/** Shows the whole record, and waits until the page is idle. */
async function whole(page: Page) {
  await page.keyboard.press('0');
  await page.waitForTimeout(1000);
  await rests(page);
}

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  /** Start and duration, and the thread's processor time within the duration, microseconds. */
  ts: number;
  dur?: number;
  tdur?: number;
}

/** Processor time of the page's main thread in each frame, ms. */
function busyIn(events: TraceEvent[]): number[] {
  const page = events.find((event) => event.name === 'FireAnimationFrame');
  const own = events.filter((event) => event.pid === page?.pid && event.tid === page.tid).sort((a, b) => a.ts - b.ts);
  const begins = own.filter((event) => event.name === 'FireAnimationFrame').map((event) => event.ts);
  const busy: number[] = [];
  let next = 0;
  for (const { ts, dur = 0, tdur = 0 } of own.filter((event) => event.name === 'RunTask')) {
    // A task that runs animation-frame callbacks begins a frame.
    const known = next;
    while (next < begins.length && begins[next]! < ts + dur) next++;
    if (next > known) busy.push(0);
    if (busy.length > 0) busy[busy.length - 1]! += tdur / 1000;
  }
  return busy;
}

/** Executes an action in each frame for some seconds; returns the intervals between frames, ms. */
async function frames(page: Page, what: What): Promise<number[]> {
  return page.evaluate(async (what) => {
    const SECONDS = 4;
    const plot = document.querySelector('[data-panel=window] .u-over')!;
    const box = plot.getBoundingClientRect();
    const wheel = (deltaY: number, shiftKey: boolean) =>
      plot.dispatchEvent(
        new WheelEvent('wheel', {
          deltaY,
          shiftKey,
          clientX: box.x + box.width * 0.4,
          clientY: box.y + 50,
          bubbles: true,
          cancelable: true,
        }),
      );
    if (what === 'move') for (let i = 0; i < 6; i++) wheel(-300, false);
    const apart: number[] = [];
    let before = await new Promise(requestAnimationFrame);
    const begun = before;
    while (before - begun < SECONDS * 1000) {
      const isFirstHalf = before - begun < SECONDS * 500;
      if (what === 'zoom') wheel(isFirstHalf ? -24 : 24, false);
      if (what === 'move') wheel(isFirstHalf ? 20 : -20, true);
      const now = await new Promise(requestAnimationFrame);
      apart.push(now - before);
      before = now;
    }
    return apart;
  }, what);
}

/** `median 16.7 ms, 95 % 33.3 ms, most 50.0 ms`. */
function spread(list: number[]): string {
  const sorted = [...list].sort((a, b) => a - b);
  const at = (share: number) => (sorted[Math.floor(share * (sorted.length - 1))] ?? 0).toFixed(1);
  return `median ${at(0.5)} ms, 95 % ${at(0.95)} ms, most ${at(1)} ms`;
}

const share = (list: number[], most: number) => `${((100 * list.filter((ms) => ms <= most).length) / list.length).toFixed(0)} %`;

/** A capture of one connection at 100 Mb/s and 20 ms, each packet cut to its headers: Ethernet, IPv4, TCP without options. */
function capture(path: string) {
  const [SEGMENT, WIRE_US, RTT_US] = [1460, 120, 20_000];
  const file = openSync(path, 'w');
  const head = Buffer.alloc(24);
  head.writeUInt32LE(0xa1b2c3d4, 0);
  head.writeUInt16LE(2, 4);
  head.writeUInt16LE(4, 6);
  head.writeUInt32LE(54, 16);
  head.writeUInt32LE(1, 20);
  writeSync(file, head);
  const packet = (us: number, forward: boolean, seq: number, ack: number, flags: number, payload: number) => {
    const bytes = Buffer.alloc(16 + 54);
    bytes.writeUInt32LE(Math.floor(us / 1e6), 0);
    bytes.writeUInt32LE(us % 1e6, 4);
    bytes.writeUInt32LE(54, 8);
    bytes.writeUInt32LE(54 + payload, 12);
    const ip = bytes.subarray(16 + 14);
    bytes.writeUInt16BE(0x0800, 16 + 12);
    ip[0] = 0x45;
    ip.writeUInt16BE(40 + payload, 2);
    ip[8] = 64;
    ip[9] = 6;
    ip.writeUInt32BE(forward ? 0x0a000001 : 0x0a000002, 12);
    ip.writeUInt32BE(forward ? 0x0a000002 : 0x0a000001, 16);
    const tcp = ip.subarray(20);
    tcp.writeUInt16BE(forward ? 40000 : 5201, 0);
    tcp.writeUInt16BE(forward ? 5201 : 40000, 2);
    tcp.writeUInt32BE(seq >>> 0, 4);
    tcp.writeUInt32BE(ack >>> 0, 8);
    tcp[12] = 0x50;
    tcp[13] = flags;
    tcp.writeUInt16BE(65535, 14);
    return bytes;
  };
  const [SYN, ACK] = [2, 16];
  writeSync(file, packet(0, true, 0, 0, SYN, 0));
  writeSync(file, packet(RTT_US, false, 0, 1, SYN | ACK, 0));
  writeSync(file, packet(RTT_US + 5, true, 1, 1, ACK, 0));
  // An ACK for every second segment, one round trip later.
  const behind = Math.round(RTT_US / WIRE_US);
  for (let i = 0, written = 0; written < CAPTURE_BYTES; i++) {
    const us = RTT_US + 10 + i * WIRE_US;
    const some = [packet(us, true, 1 + i * SEGMENT, 1, ACK, SEGMENT)];
    if (i >= behind && i % 2 === 0) some.push(packet(us + 1, false, 1, 1 + (i - behind) * SEGMENT, ACK, 0));
    const bytes = Buffer.concat(some);
    written += bytes.length;
    writeSync(file, bytes);
  }
  closeSync(file);
}
