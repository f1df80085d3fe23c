import { Readable } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'
import type { Extent } from '@dormouse/engine'
import { startProgram } from '../host/start-program.ts'
import { extentsProgram } from '../native-programs.ts'

const NUMBER_BYTES = 8
const EXTENT_BYTES = 2 * NUMBER_BYTES

/** What a sparse file holds: see native/src/extents.c. */
export async function readExtents(path: string): Promise<{ extents: readonly Extent[]; content: Readable }> {
  const program = startProgram({ argv: [extentsProgram, path], stdio: ['ignore', 'pipe', 'ignore'] })
  const [, output] = program.streams
  if (output === undefined) throw new DormouseError('internal', 'A program has no output.')
  const pieces = output[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let held = Buffer.alloc(0)
  const take = async (bytes: number) => {
    while (held.length < bytes) {
      const next = await pieces.next()
      if (next.done === true) throw new DormouseError('not_found', 'A memory file cannot be read any more.')
      held = Buffer.concat([held, next.value])
    }
    const taken = held.subarray(0, bytes)
    held = held.subarray(bytes)
    return taken
  }
  const count = Number((await take(NUMBER_BYTES)).readBigUInt64LE())
  const table = await take(count * EXTENT_BYTES)
  const extents = Array.from({ length: count }, (_, index): Extent => {
    const at = index * EXTENT_BYTES
    return [Number(table.readBigUInt64LE(at)), Number(table.readBigUInt64LE(at + NUMBER_BYTES))]
  })
  async function* rest(): AsyncGenerator<Buffer> {
    if (held.length > 0) yield held
    for (let next = await pieces.next(); next.done !== true; next = await pieces.next()) yield next.value
    const { exitCode } = await program.exited
    if (exitCode !== 0) throw new DormouseError('not_found', 'A memory file cannot be read any more.')
  }
  const content = Readable.from(rest(), { objectMode: false })
  // Also one that was not read to its end: the program would wait for its reader, and keep this process alive.
  content.once('close', () => output.destroy())
  return { extents, content }
}
