// Frame scheduler. While the span moves, visible charts follow at once by scaling their last picture and are redrawn one after
// the other, so that no frame takes long. All other parts are redrawn once the span has stopped moving.

/** A part of the page that the scheduler draws. */
export interface Drawable {
  element: Element;
  /** Draws it for the current span. */
  draw(): void;
  /** If drawing is slow: whether the last picture can be used while the span moves. */
  serves?(): boolean;
  /** Shows the last picture, scaled to the current span. */
  follow?(): void;
}

/** No further drawing begins in a frame after this time, milliseconds. */
const BUDGET_MS = 4;
/** The span counts as stopped after this time without a change, milliseconds. */
const REST_MS = 150;
/** Distance from the screen up to which a chart counts as visible, pixels. */
const NEAR_PX = 100;

class Frames {
  isMoving = false;
  private drawables = new Map<Element, Drawable>();
  private near = new Set<Drawable>();
  /** Drawables with an outdated picture, oldest first, and whether each must be redrawn even while the span moves. */
  private waiting = new Map<Drawable, boolean>();
  private isScheduled = false;
  private restTimer: ReturnType<typeof setTimeout> | undefined;
  private watcher = new IntersectionObserver((entries) => entries.forEach((entry) => this.updateVisibility(entry)), {
    rootMargin: `${NEAR_PX}px 0px`,
  });

  constructor() {
    window.longfatIsIdle = () => this.waiting.size === 0 && !this.isMoving;
  }

  add(drawable: Drawable) {
    this.drawables.set(drawable.element, drawable);
    this.watcher.observe(drawable.element);
    this.request(drawable, true);
  }

  remove(drawable: Drawable) {
    this.watcher.unobserve(drawable.element);
    this.drawables.delete(drawable.element);
    this.near.delete(drawable);
    this.waiting.delete(drawable);
  }

  /** Requests a drawing in one of the next frames; with `force`, scaling the last picture does not suffice. */
  request(drawable: Drawable, force = false) {
    this.waiting.set(drawable, force || this.waiting.get(drawable) === true);
    this.next();
  }

  /** Records that the span moves; `rested` is called when it has stopped. */
  move(rested: () => void) {
    this.isMoving = true;
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => {
      this.isMoving = false;
      rested();
      for (const drawable of this.drawables.values()) this.request(drawable, true);
    }, REST_MS);
  }

  private updateVisibility({ target, isIntersecting }: IntersectionObserverEntry) {
    const drawable = this.drawables.get(target);
    if (!drawable) return;
    if (isIntersecting) this.near.add(drawable);
    else this.near.delete(drawable);
    if (isIntersecting && this.waiting.has(drawable)) this.next();
  }

  private next() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  private draw() {
    const begun = performance.now();
    let drawn = 0;
    const hasTime = () => drawn === 0 || performance.now() - begun < BUDGET_MS;
    const draw = (drawable: Drawable) => {
      this.waiting.delete(drawable);
      drawable.draw();
      drawn++;
    };
    const outdated = [...this.waiting];
    const late: Drawable[] = [];
    for (const [drawable, force] of outdated) {
      if (!this.near.has(drawable)) continue;
      if (!drawable.serves || !drawable.follow) draw(drawable);
      else if (this.isMoving && !force && drawable.serves()) {
        this.waiting.delete(drawable);
        drawable.follow();
      } else late.push(drawable);
    }
    drawn = 0;
    for (const drawable of late) {
      if (hasTime()) draw(drawable);
      else if (this.isMoving) drawable.follow?.();
    }
    if (!this.isMoving) for (const [drawable] of outdated) if (!this.near.has(drawable) && hasTime()) draw(drawable);
    const hasMore = [...this.waiting.keys()].some((drawable) => this.near.has(drawable) || !this.isMoving);
    if (hasMore) this.next();
  }
}

export const frames = new Frames();
