// The names of the points on the mesh's map: beside their marks, where they cover neither each other nor many links.
import type { Curve, Mark, Projection } from './projection';

export interface Label {
  text: string;
  x: number;
  y: number;
  /** The end of the text that is at `x`. */
  anchor: 'start' | 'middle' | 'end';
}

interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** Height of a label, its part above the baseline, and the width of a letter in a wide typeface, pixels. */
const [HEIGHT, ASCENT, LETTER_WIDTH] = [14, 11, 7.8];
/** Distance of a label from the middle of its mark, pixels. */
const GAP = 9;
/** Half of the width of a mark, pixels. */
const MARK_RADIUS = 7;
/** Labels move up or down by at most this number of their heights if all positions beside the mark are taken. */
const MAX_STEPS = 6;
/** The links are counted in squares of this size, pixels. */
const SQUARE = 7;
/** Costs of a position: overlap with another label or a mark, a part outside the map, a step away from the mark. A link costs 1 for
 * each square of the label that it crosses. */
const [OVERLAP, OUTSIDE, STEP] = [10_000, 5_000, 200];

/** The labels of all marks. Each has the position with the lowest cost; labels further up choose first. */
export function labelsOf(map: Projection, marks: Mark[], links: Curve[]): Label[] {
  const crossings = crossingsOf(map, links);
  const markBoxes = marks.map(({ x, y }) => around(x, y, MARK_RADIUS));
  const taken: Box[] = [];
  return [...marks]
    .sort((a, b) => a.y - b.y)
    .map((mark) => {
      const text = textOf(mark.names);
      const others = [...taken, ...markBoxes.filter((_, at) => marks[at] !== mark)];
      const priced = positions(text, mark).map(({ label, steps }) => {
        const box = boxOf(label);
        const isOutside = box.left < 0 || box.right > map.width || box.top < 0 || box.bottom > map.height;
        const overlaps = others.filter((other) => overlap(box, other)).length;
        return { label, cost: overlaps * OVERLAP + (isOutside ? OUTSIDE : 0) + steps * STEP + crossings(box) };
      });
      const { label } = priced.reduce((best, next) => (next.cost < best.cost ? next : best));
      taken.push(boxOf(label));
      return label;
    });
}

interface Position {
  label: Label;
  /** Heights of a label between this position and the mark. */
  steps: number;
}

/** Around the mark, then in columns right and left of it. Of positions with the same cost, the first one is chosen. */
function positions(text: string, { x, y }: Mark): Position[] {
  const middle = y + ASCENT - HEIGHT / 2;
  const [above, below] = [y - GAP, y + GAP + ASCENT];
  const label = (x: number, y: number, anchor: Label['anchor']): Label => ({ text, x, y, anchor });
  const near = [
    label(x + GAP, middle, 'start'),
    label(x - GAP, middle, 'end'),
    label(x, above, 'middle'),
    label(x, below, 'middle'),
    label(x + 2, above, 'start'),
    label(x - 2, above, 'end'),
    label(x + 2, below, 'start'),
    label(x - 2, below, 'end'),
  ];
  const far: Position[] = [];
  for (let steps = 1; steps <= MAX_STEPS; steps += 1) {
    for (const shift of [steps * HEIGHT, -steps * HEIGHT]) {
      far.push({ label: label(x + GAP, middle + shift, 'start'), steps });
      far.push({ label: label(x - GAP, middle + shift, 'end'), steps });
    }
  }
  return [...near.map((label) => ({ label, steps: 0 })), ...far];
}

const textOf = (names: string[]) =>
  names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} more` : names.join(', ');

export function boxOf({ text, x, y, anchor }: Label): Box {
  const width = text.length * LETTER_WIDTH;
  const left = anchor === 'start' ? x : anchor === 'end' ? x - width : x - width / 2;
  return { left, right: left + width, top: y - ASCENT, bottom: y - ASCENT + HEIGHT };
}

const around = (x: number, y: number, radius: number): Box => ({
  left: x - radius,
  right: x + radius,
  top: y - radius,
  bottom: y + radius,
});

/** Labels that touch do not overlap, whatever the rounding. */
export const overlap = (a: Box, b: Box) =>
  a.left < b.right - 0.01 && b.left < a.right - 0.01 && a.top < b.bottom - 0.01 && b.top < a.bottom - 0.01;

/** The function that returns how many squares of a box the links cross, each link on its own. */
function crossingsOf(map: Projection, links: Curve[]): (box: Box) => number {
  const [columns, rows] = [Math.ceil(map.width / SQUARE), Math.ceil(map.height / SQUARE)];
  const counts = new Uint32Array(columns * rows);
  const isInside = (column: number, row: number) => column >= 0 && column < columns && row >= 0 && row < rows;
  for (const link of links) {
    let last = -1;
    for (const { x, y } of link.points(SQUARE / 2)) {
      const [column, row] = [Math.floor(x / SQUARE), Math.floor(y / SQUARE)];
      const square = row * columns + column;
      if (isInside(column, row) && square !== last) counts[square]! += 1;
      last = square;
    }
  }
  return (box) => {
    let sum = 0;
    for (let row = Math.floor(box.top / SQUARE); row <= Math.floor(box.bottom / SQUARE); row += 1)
      for (let column = Math.floor(box.left / SQUARE); column <= Math.floor(box.right / SQUARE); column += 1)
        if (isInside(column, row)) sum += counts[row * columns + column]!;
    return sum;
  };
}
