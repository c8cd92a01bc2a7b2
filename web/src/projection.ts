// The computation of the mesh's map, without its drawing: projection, marks of points that are close together, and the curves
// between them. labels.ts places the names.
import type { MeshPoint } from './mesh-api';

/** A point with a known position. */
export interface PlacedPoint {
  name: string;
  longitude: number;
  latitude: number;
}

/** An equirectangular projection of a part of the Earth to pixels. */
export interface Projection {
  width: number;
  height: number;
  /** The left edge, degrees; longitudes increase from it, beyond 180 if the map crosses the antimeridian. */
  west: number;
  south: number;
  north: number;
  /** Pixels for a degree of longitude and of latitude. */
  perLongitude: number;
  perLatitude: number;
}

/** Points at the same position or closer than a mark's size. */
export interface Mark {
  names: string[];
  x: number;
  y: number;
}

/** A link from one mark to another. */
export interface Curve {
  /** The path of an SVG. */
  path: string;
  /** The middle, and the direction there, degrees. */
  middle: { x: number; y: number; degrees: number };
  /** Points of the curve, at most about `step` pixels apart. */
  points: (step: number) => { x: number; y: number }[];
}

/** Smallest span of the map, degrees: coastlines are known to a degree. */
const MIN_SPAN = 24;
/** Space around the points, as a share of their span, and at least in degrees. */
const [MARGIN, MIN_MARGIN] = [0.12, 6];
/** Height of the map as a share of its width, at least; narrow maps need height for their labels. */
const minShape = (width: number) => (width < 500 ? 0.75 : 0.42);
const MAX_SHAPE = 0.9;
/** Marks closer than this are merged, pixels. */
const MARK_SIZE = 16;

export function placed(points: MeshPoint[]): PlacedPoint[] {
  return points.flatMap(({ name, coordinates }) =>
    coordinates ? [{ name, longitude: coordinates.longitude_deg, latitude: coordinates.latitude_deg }] : [],
  );
}

const modulo = (value: number, by: number) => ((value % by) + by) % by;

/** The projection that shows all points. The map is cut in the middle of the widest span of longitudes without points. */
export function projectionOf(points: PlacedPoint[], width: number): Projection {
  const longitudes = [...new Set(points.map((point) => point.longitude))].sort((a, b) => a - b);
  const latitudes = points.map((point) => point.latitude);
  const gaps = longitudes.map((longitude, i) => {
    const next = longitudes[(i + 1) % longitudes.length] ?? longitude;
    return longitudes.length === 1 ? 360 : modulo(next - longitude, 360);
  });
  const widest = gaps.indexOf(Math.max(...gaps));
  const first = longitudes[(widest + 1) % longitudes.length] ?? 0;
  const occupied = 360 - (gaps[widest] ?? 360);
  const withMargin = (span: number) => Math.max(MIN_SPAN, span + 2 * Math.max(MIN_MARGIN, MARGIN * span));
  let longitudeSpan = Math.min(360, withMargin(occupied));
  const [low, high] = [Math.min(...latitudes), Math.max(...latitudes)];
  let latitudeSpan = Math.min(180, withMargin(high - low));
  // Shapes are undistorted at the middle latitude.
  const shrink = Math.max(0.4, Math.cos((((low + high) / 2) * Math.PI) / 180));
  const shape = latitudeSpan / (longitudeSpan * shrink);
  if (shape < minShape(width)) latitudeSpan = Math.min(180, minShape(width) * longitudeSpan * shrink);
  if (shape > MAX_SHAPE) longitudeSpan = Math.min(360, latitudeSpan / (MAX_SHAPE * shrink));
  const perLongitude = width / longitudeSpan;
  const perLatitude = perLongitude / shrink;
  const south = Math.max(-90, Math.min(90 - latitudeSpan, (low + high - latitudeSpan) / 2));
  return {
    width,
    height: Math.round(latitudeSpan * perLatitude),
    west: first + occupied / 2 - longitudeSpan / 2,
    south,
    north: south + latitudeSpan,
    perLongitude,
    perLatitude,
  };
}

/** The position of a longitude within the map. */
export const xOf = (map: Projection, longitude: number) => modulo(longitude - map.west, 360) * map.perLongitude;
export const yOf = (map: Projection, latitude: number) => (map.north - latitude) * map.perLatitude;

/** Meridians and parallels at round degrees: at most eight of each. */
export function graticule(map: Projection) {
  const span = map.width / map.perLongitude;
  const step = [5, 10, 15, 30, 45].find((step) => span / step <= 8) ?? 60;
  const from = (edge: number) => Math.ceil(edge / step) * step;
  const to = (first: number, end: number) =>
    Array.from({ length: Math.max(0, Math.floor((end - first) / step) + 1) }, (_, i) => first + i * step);
  const named = (degrees: number, [plus, minus]: [string, string]) =>
    `${Math.abs(degrees)}°${degrees > 0 ? plus : degrees < 0 ? minus : ''}`;
  const meridians = to(from(map.west), map.west + span).map((longitude) => {
    const degrees = modulo(longitude + 180, 360) - 180;
    return { x: (longitude - map.west) * map.perLongitude, name: named(degrees, degrees === -180 ? ['', ''] : ['E', 'W']) };
  });
  const parallels = to(from(map.south), map.north).map((latitude) => ({
    y: yOf(map, latitude),
    name: named(latitude, ['N', 'S']),
  }));
  return { meridians, parallels };
}

/** A ring of coastlines as the path of an SVG; the copies east and west of it fill a map that crosses the antimeridian. */
export function coastlinePath(map: Projection, rings: string[]): string {
  const span = map.width / map.perLongitude;
  const parts: string[] = [];
  for (const ring of rings) {
    const points = ring.split(' ').map((point) => point.split(',').map(Number) as [number, number]);
    const [least, most] = [Math.min(...points.map(([x]) => x)), Math.max(...points.map(([x]) => x))];
    for (const turn of [-360, 0, 360, 720]) {
      if (most + turn < map.west || least + turn > map.west + span) continue;
      const at = points.map(([longitude, latitude]) => {
        const x = (longitude + turn - map.west) * map.perLongitude;
        return `${x.toFixed(1)},${yOf(map, latitude).toFixed(1)}`;
      });
      parts.push(`M${at.join('L')}Z`);
    }
  }
  return parts.join('');
}

/** Marks of all points; points whose marks would cover each other share one. */
export function marksOf(map: Projection, points: PlacedPoint[]): Mark[] {
  const marks: Mark[] = [];
  for (const point of points) {
    const [x, y] = [xOf(map, point.longitude), yOf(map, point.latitude)];
    const near = marks.find((mark) => Math.hypot(mark.x - x, mark.y - y) < MARK_SIZE);
    if (near) near.names.push(point.name);
    else marks.push({ names: [point.name], x, y });
  }
  return marks;
}

/** A curve from one mark to another that bends to the right of the straight line, so that both directions are visible. */
export function curve(from: Mark, to: Mark): Curve {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const bend = Math.max(14, 0.16 * length);
  const [cx, cy] = [(from.x + to.x) / 2 - (dy / length) * bend, (from.y + to.y) / 2 + (dx / length) * bend];
  // A quadratic Bézier curve; `t` is 0 at its start and 1 at its end.
  const at = (t: number) => ({
    x: (1 - t) ** 2 * from.x + 2 * t * (1 - t) * cx + t ** 2 * to.x,
    y: (1 - t) ** 2 * from.y + 2 * t * (1 - t) * cy + t ** 2 * to.y,
  });
  return {
    path: `M${from.x.toFixed(1)},${from.y.toFixed(1)}Q${cx.toFixed(1)},${cy.toFixed(1)} ${to.x.toFixed(1)},${to.y.toFixed(1)}`,
    middle: { ...at(0.5), degrees: (Math.atan2(dy, dx) * 180) / Math.PI },
    points: (step) => {
      const count = Math.ceil((length + bend) / step);
      return Array.from({ length: count + 1 }, (_, i) => at(i / count));
    },
  };
}
