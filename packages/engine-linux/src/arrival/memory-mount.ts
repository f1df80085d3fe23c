import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { startProgram } from '../host/start-program.ts'
import { arriveProgram } from '../native-programs.ts'

/** What one burrow needs to see memory files that arrive. */
export interface MemoryPlace {
  /** Where the files are, or links to them. */
  readonly files: string
  /** Where they are shown. It does not exist yet. */
  readonly directory: string
  /** Where a server finds the program that shows them. */
  readonly socket: string
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

/** Makes a mount of the files of a burrow. `mapsDir` says which pages of them are there. */
export async function mountMemory(
  { files, directory, socket }: MemoryPlace,
  mapsDir: string,
): Promise<MemoryMount> {
  await mkdir(directory, { mode: 0o700 })
  const program = startProgram({
    argv: [arriveProgram, directory, socket, files, mapsDir],
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
