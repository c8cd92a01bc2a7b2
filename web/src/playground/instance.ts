// An instance of the WebAssembly module (crates/playground) and of the congestion controls that it loads: side modules, which use
// its memory, its table and its stack. Each run gets a new instance, so the memory of the last run is freed.

interface Exports {
  memory: WebAssembly.Memory;
  __indirect_function_table: WebAssembly.Table;
  __stack_pointer: WebAssembly.Global;
  allocate(bytes: number, alignment: number): number;
  run(request: number, bytes: number): void;
  text_bytes(): number;
  text_address(): number;
  cells(name: number, bytes: number): number;
  cells_address(): number;
  read_events(): void;
  read_algorithms(): void;
}

/** A time in microseconds, a subject, a kind and a value. */
export type EventRow = [number, string, string, number];

/** The memory and the table that a side module needs (section `dylink.0`, subsection 1). */
interface Needs {
  bytes: number;
  alignment: number;
  elements: number;
}

const MEMORY_INFO = 1;

export class Instance {
  private exports: Exports;
  private modules = new Map<number, WebAssembly.Module>();
  private copies: { base: number; exports: WebAssembly.Exports }[] = [];

  constructor(module: WebAssembly.Module, progress: (elapsed_s: number) => void) {
    const page = {
      instantiate: (address: number, bytes: number) => this.instantiate(address, bytes),
      symbol: (copy: number, name: number, bytes: number) => this.symbol(copy, this.text(name, bytes)),
      progress,
    };
    this.exports = new WebAssembly.Instance(module, { page }).exports as unknown as Exports;
  }

  /** The reply to a request; both are JSON. */
  run(request: string): string {
    this.exports.run(...this.put(request));
    return this.answer();
  }

  /** The values of a column of a flow or of a link's direction; NaN where a row has none. */
  cells(table: string, subject: string, column: string): Float64Array {
    const rows = this.exports.cells(...this.put([table, subject, column].join('\t')));
    return new Float64Array(this.exports.memory.buffer, this.exports.cells_address(), rows).slice();
  }

  events(): EventRow[] {
    this.exports.read_events();
    return JSON.parse(this.answer()) as EventRow[];
  }

  /** The names of the built-in congestion controls. */
  algorithms(): string[] {
    this.exports.read_algorithms();
    return JSON.parse(this.answer()) as string[];
  }

  private answer(): string {
    return this.text(this.exports.text_address(), this.exports.text_bytes());
  }

  private text(address: number, bytes: number): string {
    return new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, address, bytes));
  }

  private put(text: string): [number, number] {
    const bytes = new TextEncoder().encode(text);
    const address = this.exports.allocate(bytes.length, 1);
    new Uint8Array(this.exports.memory.buffer, address, bytes.length).set(bytes);
    return [address, bytes.length];
  }

  /** Instantiates a side module with separate variables. */
  private instantiate(address: number, bytes: number): number {
    const { memory, __indirect_function_table: table, __stack_pointer } = this.exports;
    try {
      const module = this.modules.get(address) ?? new WebAssembly.Module(new Uint8Array(memory.buffer, address, bytes).slice());
      this.modules.set(address, module);
      const needs = needsOf(module);
      const base = this.exports.allocate(needs.bytes, needs.alignment);
      const elements = table.grow(needs.elements);
      const constant = (value: number) => new WebAssembly.Global({ value: 'i32' }, value);
      const env = {
        memory,
        __indirect_function_table: table,
        __stack_pointer,
        __memory_base: constant(base),
        __table_base: constant(elements),
      };
      const exports = new WebAssembly.Instance(module, { env }).exports;
      // Pointers between variables and to functions depend on both bases.
      for (const name of ['__wasm_apply_data_relocs', '__wasm_call_ctors']) (exports[name] as (() => void) | undefined)?.();
      return this.copies.push({ base, exports }) - 1;
    } catch (error) {
      console.error(error);
      return -1;
    }
  }

  private symbol(index: number, name: string): number {
    const copy = this.copies[index];
    const offset = copy?.exports[name];
    return copy && offset instanceof WebAssembly.Global ? copy.base + Number(offset.value) : 0;
  }
}

function needsOf(module: WebAssembly.Module): Needs {
  const [section] = WebAssembly.Module.customSections(module, 'dylink.0');
  if (!section) throw new Error('this is no side module');
  const bytes = new Uint8Array(section);
  let at = 0;
  /** An unsigned LEB128 number. */
  const number = () => {
    let [value, shift, byte] = [0, 0, 0];
    do {
      byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      shift += 7;
    } while (byte & 0x80);
    return value;
  };
  while (at < bytes.length) {
    const [kind, length] = [number(), number()];
    if (kind === MEMORY_INFO) return { bytes: number(), alignment: 2 ** number(), elements: number() };
    at += length;
  }
  throw new Error('the side module does not state what it needs');
}
