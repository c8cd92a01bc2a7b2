// Computes runs in a worker, so that the page remains responsive. The page ends a run by ending the worker.
import { Instance } from './instance';
import type { FromWorker, ToWorker } from './messages';

/** Interval between reports of progress, milliseconds. */
const PROGRESS_MS = 100;

let module: WebAssembly.Module | undefined;
let instance: Instance | undefined;

const send = (message: FromWorker) => postMessage(message);

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  try {
    if (data.kind === 'module') module = data.module;
    else if (data.kind === 'algorithms' && module) {
      send({ kind: 'algorithms', id: data.id, algorithms: new Instance(module, () => {}).algorithms() });
    } else if (data.kind === 'run' && module) send({ kind: 'answer', id: data.id, ...computed(module, data.request) });
    else if (data.kind === 'cells' && instance) {
      const { id, table, subject, column } = data;
      send({ kind: 'cells', id, cells: instance.cells(table, subject, column) });
    } else if (data.kind === 'events' && instance) send({ kind: 'events', id: data.id, events: instance.events() });
    else throw new Error('nothing was computed yet');
  } catch (error) {
    send({ kind: 'failed', id: 'id' in data ? data.id : 0, message: String(error) });
  }
};

function computed(module: WebAssembly.Module, request: string): { answer: string; wall_ms: number } {
  const began = performance.now();
  let reported = began;
  const progress = (elapsed_s: number) => {
    const now = performance.now();
    if (now - reported < PROGRESS_MS) return;
    reported = now;
    send({ kind: 'progress', elapsed_s });
  };
  instance = new Instance(module, progress);
  const answer = instance.run(request);
  return { answer, wall_ms: performance.now() - began };
}
