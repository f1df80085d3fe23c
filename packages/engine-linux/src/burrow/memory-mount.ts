import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { BurrowPaths } from '../host/layout.ts'
import { startProgram } from '../host/start-program.ts'
import { arriveProgram } from '../native-programs.ts'

/** Where a server finds the program that shows a burrow its memory files. */
export function memorySocket(paths: BurrowPaths): string {
  return join(paths.run, 'arrive.sock')
}

/** Memory files that a burrow sees although pages are missing: a fault on one waits until it is there. */
export interface MemoryMount {
  /** On the host, until `hide`. */
  readonly directory: string
  /** The program that serves it. It tells which pages are wanted. When it is closed before `hide`, the mount goes. */
  readonly channel: Socket
  /** The burrow has a mount of its own now. */
  hide(): void
}

/** Makes a mount of the files in `paths.memory`. `mapsDir` says which pages of them are there. */
export async function mountMemory(paths: BurrowPaths, mapsDir: string): Promise<MemoryMount> {
  const directory = join(paths.run, 'memory')
  const socket = memorySocket(paths)
  await mkdir(directory, { mode: 0o700 })
  const program = startProgram({
    argv: [arriveProgram, directory, socket, paths.memory, mapsDir],
    // It outlives this server, like the burrow.
    isDetached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
    cwd: '/',
  })
  const [, output] = program.streams
  const first = output === undefined ? undefined : await Promise.race([once(output, 'data'), program.exited])
  const said = Array.isArray(first) ? String(first[0]).trim() : 'it ended'
  if (said !== 'ready')
    throw new DormouseError(
      'restore_failed',
      'The memory of the sandbox cannot be shown before it is here.',
      {
        details: { output: said },
      },
    )
  const channel = await connectTo(socket)
  return { directory, channel, hide: () => void channel.write('h') }
}

export async function connectTo(socket: string): Promise<Socket> {
  const channel = connect(socket)
  await once(channel, 'connect')
  // The burrow has ended: its removal says so.
  channel.on('error', () => {})
  return channel
}
