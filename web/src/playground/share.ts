// A scenario in the address: JSON, compressed (raw deflate), in base64url.
import type { Request } from './messages';

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function encode(request: Request): Promise<string> {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(request)), new CompressionStream('deflate-raw'));
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join('');
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** A word of a shell command, quoted if necessary: the names in an address can be any text, and readers copy commands. */
export const shellWord = (text: string) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** The scenario of an address; null if the address is incomplete or has another format. */
export async function decode(code: string): Promise<Request | null> {
  try {
    const text = atob(code.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = await through(
      Uint8Array.from(text, (c) => c.charCodeAt(0)),
      new DecompressionStream('deflate-raw'),
    );
    const found = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Request>;
    const { name, toml, engine, variant } = found;
    if (typeof name !== 'string' || typeof toml !== 'string') return null;
    return { name, toml, engine: engine === 'model' ? 'model' : 'sim', variant: typeof variant === 'string' ? variant : null };
  } catch {
    return null;
  }
}
