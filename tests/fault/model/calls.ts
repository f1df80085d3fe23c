import type { ServerProcess } from '../../server/server-process.ts'

/** Beyond every time-out that a call of the model asks for: a call that takes longer hangs. */
const HANG_MS = 90_000

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

export type Outcome =
  | { readonly kind: 'done'; readonly body: Json }
  /** The server said no, with a code. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  /** The server was killed before it answered. */
  | { readonly kind: 'unknown' }

class Hang extends Error {}

/** Calls the server as a client that may be cut off. Throws `Hang` when no answer comes. */
export async function call(
  server: ServerProcess,
  path: string,
  options: { readonly json?: object; readonly method?: string } = {},
): Promise<Outcome> {
  try {
    const { status, body } = await server.call(path, { ...options, signal: AbortSignal.timeout(HANG_MS) })
    if (status < 300) return { kind: 'done', body }
    return {
      kind: 'refused',
      code: body?.error?.code ?? `status ${status}`,
      message: body?.error?.message ?? '',
    }
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError')
      throw new Hang(`No answer to ${path} ${JSON.stringify(options.json ?? {})} within ${HANG_MS} ms.`)
    return { kind: 'unknown' }
  }
}
