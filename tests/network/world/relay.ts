import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const RELAY = fileURLToPath(new URL('relay.mjs', import.meta.url))

/** A program of Node that talks with the test by messages. */
export function beginProgram(
  launcher: readonly string[],
  program: readonly string[],
  fds: readonly number[] = [],
): ChildProcess {
  const [command = '', ...args] = [...launcher, process.execPath, ...program]
  return spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit', ...fds, 'ipc'] })
}

/** Resolves when the program has sent its first message. */
export async function hasBegun(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${child.spawnargs.join(' ')} ended`)
  })
  await Promise.race([once(child, 'message'), ended])
  ended.catch(() => {})
}

export interface Relay {
  readonly child: ChildProcess
  /** The address of this machine's loopback that leads to one in the namespace. */
  readonly reach: (address: string) => Promise<string>
  /** The port there. */
  readonly target: () => number
}

/** A port of this machine's loopback that leads to one in the namespace of `launcher`; to `host`, if it is given. */
export async function openRelay(launcher: readonly string[], host = '127.0.0.1'): Promise<Relay> {
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as AddressInfo
  const { fd } = (listener as unknown as { _handle: { fd: number } })._handle
  const child = beginProgram(launcher, [RELAY], [fd])
  // From here on the child alone accepts.
  listener.close()
  let target = 0
  const reach = async (address: string) => {
    target = Number(new URL(address).port)
    const ready = once(child, 'message')
    child.send({ port: target, host })
    await ready
    return `http://127.0.0.1:${port}`
  }
  return { child, reach, target: () => target }
}
