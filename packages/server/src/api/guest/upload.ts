import { DormouseError } from '@dormouse/contracts'
import type { FileStat } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { WHOLE_UPLOAD_MAX_BYTES } from '../limits.ts'
import { notResumable } from './not-resumable.ts'

export interface Upload {
  readonly path: string
  readonly options: { mode?: number; append?: boolean; parents?: boolean; user?: string }
  readonly signal: AbortSignal
}

/**
 * Writes a file from `pieces`. A small upload is buffered and written in one short call. A larger one is streamed, and
 * fails if the sandbox goes to sleep in the meantime. Readers see the old file until the new one is complete.
 */
export async function upload(
  sandbox: SandboxHandle,
  pieces: AsyncGenerator<Uint8Array>,
  { path, options, signal }: Upload,
): Promise<FileStat> {
  const work = { cause: 'file', what: `writing ${path}`, signal } as const
  const head: Uint8Array[] = []
  let headBytes = 0
  while (headBytes < WHOLE_UPLOAD_MAX_BYTES) {
    const next = await pieces.next()
    if (next.done === true) {
      const data = Buffer.concat(head)
      return sandbox.use(work, (guest) => guest.files.write(path, data, { ...options, signal }))
    }
    head.push(next.value)
    headBytes += next.value.byteLength
  }
  const open = notResumable('the upload', async function* (guest) {
    yield await guest.files.write(path, chain(head, pieces), { ...options, signal })
  })
  for await (const stat of sandbox.attach(work, open)) return stat
  throw new DormouseError('internal', 'an upload ended without a result')
}

async function* chain(head: Uint8Array[], rest: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for (let piece = head.shift(); piece !== undefined; piece = head.shift()) yield piece
  yield* rest
}
