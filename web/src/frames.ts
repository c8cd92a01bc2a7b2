// Who draws in which frame: while the span moves, what is on the screen follows at once and is drawn anew in turns, so that no
// frame takes long; all else is drawn once nothing moves.

/** Something with a picture. */
export interface Sight {
  element: Element;
  /** Draws it as it is to be. */
  draw(): void;
  /** Of one that takes long to draw: whether the picture that is there will do while the span moves. */
  serves?(): boolean;
  /** Shows that picture, where it belongs now. */
  follow?(): void;
}

/** In a frame nothing more is begun after so many milliseconds. */
const BUDGET_MS = 4;
/** The span moves until it has not for so many milliseconds. */
const REST_MS = 150;
/** Pixels above and below the screen that count as on it. */
const NEAR_PX = 100;

class Frames {
  isMoving = false;
  private sights = new Map<Element, Sight>();
  private near = new Set<Sight>();
  /** Those whose picture is not what it is to be, longest first; whether it must be drawn anew even while the span moves. */
  private waiting = new Map<Sight, boolean>();
  private isAsked = false;
  private rest: ReturnType<typeof setTimeout> | undefined;
  private watcher = new IntersectionObserver((entries) => entries.forEach((entry) => this.look(entry)), { rootMargin: `${NEAR_PX}px 0px` });

  constructor() {
    window.longfatRests = () => this.waiting.size === 0 && !this.isMoving;
  }

  add(sight: Sight) {
    this.sights.set(sight.element, sight);
    this.watcher.observe(sight.element);
    this.ask(sight, true);
  }

  remove(sight: Sight) {
    this.watcher.unobserve(sight.element);
    this.sights.delete(sight.element);
    this.near.delete(sight);
    this.waiting.delete(sight);
  }

  /** Has it drawn in one of the next frames: where it belongs now, or `anew`. */
  ask(sight: Sight, anew = false) {
    this.waiting.set(sight, anew || this.waiting.get(sight) === true);
    this.next();
  }

  /** The span moves; `rested` is called when it no longer does. */
  move(rested: () => void) {
    this.isMoving = true;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => {
      this.isMoving = false;
      rested();
      for (const sight of this.sights.values()) this.ask(sight, true);
    }, REST_MS);
  }

  private look({ target, isIntersecting }: IntersectionObserverEntry) {
    const sight = this.sights.get(target);
    if (!sight) return;
    if (isIntersecting) this.near.add(sight);
    else this.near.delete(sight);
    if (isIntersecting && this.waiting.has(sight)) this.next();
  }

  private next() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.draw();
    });
  }

  private draw() {
    const begun = performance.now();
    let drawn = 0;
    const hasTime = () => drawn === 0 || performance.now() - begun < BUDGET_MS;
    const draw = (sight: Sight) => {
      this.waiting.delete(sight);
      sight.draw();
      drawn++;
    };
    const asked = [...this.waiting];
    const late: Sight[] = [];
    for (const [sight, anew] of asked) {
      if (!this.near.has(sight)) continue;
      if (!sight.serves || !sight.follow) draw(sight);
      else if (this.isMoving && !anew && sight.serves()) {
        this.waiting.delete(sight);
        sight.follow();
      } else late.push(sight);
    }
    drawn = 0;
    for (const sight of late) {
      if (hasTime()) draw(sight);
      else if (this.isMoving) sight.follow?.();
    }
    if (!this.isMoving) for (const [sight] of asked) if (!this.near.has(sight) && hasTime()) draw(sight);
    const isLeft = [...this.waiting.keys()].some((sight) => this.near.has(sight) || !this.isMoving);
    if (isLeft) this.next();
  }
}

export const frames = new Frames();
