// A chart over the time axis: uPlot's axes, cursor and selection, and the picture of the samples on top.
import uPlot from 'uplot';
import { ticks, timeTicks } from './format';
import { frames, type Drawable } from './frames';
import type { View } from './curves';
import { page } from './page.svelte';
import { left, RIGHT } from './panels';
import { Picture } from './picture';
import type { OpenRuns } from './runs.svelte';

/** The sample at the cursor. */
export interface Mark {
  time: number;
  value: number;
  colour: string;
}

/** The content of a chart. */
export interface Content {
  unit: string;
  /** The minimum and the maximum of the value axis for the shown span. */
  range: () => [number, number];
  /** Draws the samples. */
  paint: (view: View) => void;
  /** Whether drawing them is slow. */
  isSlow: () => boolean;
  /** Draws on top of the samples. */
  above?: (plot: uPlot) => void;
  /** The samples at an instant, which get a dot. */
  marks?: (time: number) => Mark[];
}

const FONT = '11px system-ui, sans-serif';

export class TimeChart implements Drawable {
  private plot: uPlot;
  private picture: Picture;
  private isFollowing = false;
  private dots: HTMLElement[] = [];

  constructor(
    public element: HTMLElement,
    private runs: OpenRuns,
    private content: Content,
    width: number,
    height: number,
  ) {
    this.picture = new Picture(content.paint);
    this.plot = new uPlot(this.options(width, height), [[0, 1]], element);
    frames.add(this);
  }

  close() {
    frames.remove(this);
    this.plot.destroy();
  }

  resize(width: number, height: number) {
    if (width !== this.plot.width || height !== this.plot.height) this.plot.setSize({ width, height });
  }

  draw() {
    this.isFollowing = false;
    this.update();
  }

  follow() {
    this.isFollowing = true;
    this.update();
  }

  serves(): boolean {
    return this.content.isSlow() && this.picture.serves(this.runs.span);
  }

  private update() {
    const { from, to } = this.runs.span;
    this.plot.batch(() => this.plot.setScale('x', { min: from, max: to }));
  }

  private options(width: number, height: number): uPlot.Options {
    const { runs, content } = this;
    const axis = {
      stroke: () => page.style('--soft'),
      font: FONT,
      gap: 4,
      ticks: { show: false },
      grid: { stroke: () => page.style('--grid'), width: 1 },
    };
    const values = (at: number[]) => {
      const { texts, unit } = ticks(at, content.unit);
      return texts.map((text, i) => (i === texts.length - 1 && unit ? `${text} ${unit}` : text));
    };
    return {
      width,
      height,
      padding: [8, RIGHT, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        sync: { key: 'time', setSeries: false, scales: ['x', null] },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: {
          dblclick: () => () => {
            runs.whole();
            return null;
          },
        },
      },
      scales: {
        x: { time: false, range: () => [runs.span.from, runs.span.to] },
        y: { range: () => (this.isFollowing ? this.picture.range : content.range()) },
      },
      axes: [
        { ...axis, size: 22, space: 70, values: (_, at) => timeTicks(at) },
        { ...axis, size: (plot) => left(plot.width), space: 30, values: (_, at) => values(at) },
      ],
      series: [{}],
      hooks: {
        draw: [(plot) => this.drawOver(plot)],
        setSelect: [
          (plot) => {
            const { left: start, width: wide } = plot.select;
            // Only the chart with the pointer changes the span.
            if (wide >= 4 && plot.cursor.event) runs.show(plot.posToVal(start, 'x'), plot.posToVal(start + wide, 'x'));
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
        setCursor: [
          (plot) => {
            // Only the chart under the pointer sets the cursor.
            if (plot.over.matches(':hover')) runs.cursor = cursorTime(plot);
            this.mark(plot);
          },
        ],
        ready: [
          (plot) => {
            plot.over.addEventListener(
              'wheel',
              (event) => {
                event.preventDefault();
                if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
                  runs.move((event.deltaX + event.deltaY) / 800);
                else {
                  const { from, to } = runs.span;
                  // uPlot caches the chart's position; reading it from the event would force a layout.
                  const around = from + ((to - from) * (event.clientX - plot.rect.left)) / plot.rect.width;
                  runs.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 300), around);
                }
              },
              { passive: false },
            );
            plot.over.addEventListener('mouseleave', () => (runs.cursor = null));
          },
        ],
      },
    };
  }

  private drawOver(plot: uPlot) {
    const { runs, picture } = this;
    const { min, max } = plot.scales['y'] ?? {};
    if (!this.isFollowing) picture.draw(plot.bbox, runs.span, [min ?? 0, max ?? 1]);
    picture.show(plot.ctx, plot.bbox, runs.span);
    this.content.above?.(plot);
    this.mark(plot);
  }

  /** Draws a dot on each curve at the cursor. */
  private mark(plot: uPlot) {
    const time = cursorTime(plot);
    const marks = time === null ? [] : (this.content.marks?.(time) ?? []);
    while (this.dots.length < marks.length) {
      const dot = document.createElement('i');
      dot.className = 'dot';
      plot.over.append(dot);
      this.dots.push(dot);
    }
    const { width, height } = plot.bbox;
    this.dots.forEach((dot, i) => {
      const mark = marks[i];
      const [x, y] = mark ? [plot.valToPos(mark.time, 'x'), plot.valToPos(mark.value, 'y')] : [-1, -1];
      dot.hidden = x < 0 || y < 0 || x * devicePixelRatio > width || y * devicePixelRatio > height;
      if (dot.hidden) return;
      dot.style.background = mark?.colour ?? '';
      dot.style.transform = `translate(${x}px, ${y}px)`;
    });
  }
}

/** The cursor's time; null if there is no cursor. */
function cursorTime(plot: uPlot): number | null {
  const at = plot.cursor.left ?? -1;
  return at >= 0 ? plot.posToVal(at, 'x') : null;
}
