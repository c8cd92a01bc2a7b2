// The computation of the mesh's map, without a browser.
import { expect, test } from '@playwright/test';
import { boxOf, labelsOf, overlap } from '../src/labels';
import { curve, marksOf, type PlacedPoint, projectionOf } from '../src/projection';

/** The points of `longfat agent demo`. */
const POINTS: PlacedPoint[] = [
  { name: 'busan', latitude: 35.18, longitude: 129.08 },
  { name: 'washington', latitude: 38.9, longitude: -77.04 },
  { name: 'kashima', latitude: 35.954, longitude: 140.66 },
  { name: 'losangeles', latitude: 34.05, longitude: -118.24 },
  { name: 'fukuoka', latitude: 33.59, longitude: 130.4 },
  { name: 'tokyo', latitude: 35.68, longitude: 139.77 },
];

function drawn(points: PlacedPoint[], width: number) {
  const map = projectionOf(points, width);
  const marks = marksOf(map, points);
  const links = marks.flatMap((from) => marks.filter((to) => to !== from).map((to) => curve(from, to)));
  return { map, marks, labels: labelsOf(map, marks, links) };
}

test('names are within the map and cover neither each other nor marks, whatever the width', () => {
  const faults: string[] = [];
  for (let width = 280; width <= 1400; width += 1) {
    for (const points of [POINTS, POINTS.toReversed()]) {
      const { map, marks, labels } = drawn(points, width);
      if (labels.length !== marks.length) faults.push(`${width}: ${labels.length} names of ${marks.length} marks`);
      const boxes = labels.map(boxOf);
      for (const [at, box] of boxes.entries()) {
        const text = labels[at]?.text;
        if (boxes.slice(at + 1).some((other) => overlap(box, other))) faults.push(`${width}: ${text} covers a name`);
        if (marks.some(({ x, y }) => box.left < x && x < box.right && box.top < y && y < box.bottom))
          faults.push(`${width}: ${text} covers a mark`);
        if (box.left < 0 || box.right > map.width || box.top < 0 || box.bottom > map.height)
          faults.push(`${width}: ${text} is not within the map`);
      }
    }
  }
  expect(faults).toEqual([]);
});

test('a name is beside its mark, where it covers few links', () => {
  const { marks, labels } = drawn(POINTS, 1200);
  for (const label of labels) {
    const mark = marks.find(({ names }) => names.join(', ') === label.text);
    const box = boxOf(label);
    const dx = Math.max(box.left - mark!.x, 0, mark!.x - box.right);
    const dy = Math.max(box.top - mark!.y, 0, mark!.y - box.bottom);
    expect(Math.hypot(dx, dy)).toBeLessThan(12);
  }
  // All links of busan go to the east.
  expect(labels.find(({ text }) => text.startsWith('busan'))?.anchor).toBe('end');
});

test('many points that are close together have names that do not cover each other', () => {
  // A grid of 2 by 5 points, 3 degrees apart: closer than their names are wide.
  const near = Array.from({ length: 10 }, (_, i) => ({
    name: `point${i}`,
    latitude: 34 + 3 * (i % 2),
    longitude: 130 + 3 * (i >> 1),
  }));
  const { marks, labels } = drawn([...near, ...POINTS], 1200);
  expect(marks.length).toBeGreaterThan(8);
  expect(labels).toHaveLength(marks.length);
  const boxes = labels.map(boxOf);
  expect(boxes.flatMap((box, at) => boxes.slice(at + 1).filter((other) => overlap(box, other)))).toEqual([]);
});
