import { closeSync, fchownSync, lstatSync, openSync, readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, isAlive } from './first-process.ts'

const SOCKET = 'agent.sock'

/**
 * The directory of the agent's socket, as the host gets to it: through the root of PID 1. No process inside can lead this path elsewhere,
 * because a mount point cannot be renamed or removed in the mount namespace it belongs to, and both directories on the way are mount points.
 */
function linkOf({ pid }: FirstProcess): string {
  return `/proc/${pid}/root/.dormouse/run`
}

/**
 * The agent has made its socket. From here on no process inside can remove or replace it: a symlink in its place would make the host
 * connect to a socket of the sandbox's choice. The directory is taken away first and looked at then, so nothing can be added in between.
 */
export async function closeLink(first: FirstProcess): Promise<void> {
  // By descriptor: were PID 1 gone, its number could be that of another process.
  const link = openSync(linkOf(first), 'r')
  try {
    if (!(await isAlive(first))) throw failed('The burrow ended while it started.')
    fchownSync(link, 0, 0)
    const place = `/proc/self/fd/${link}`
    const names = readdirSync(place)
    const isSocket = lstatSync(`${place}/${SOCKET}`, { throwIfNoEntry: false })?.isSocket() === true
    if (!isSocket) throw failed('The agent left no socket behind.')
    if (names.length !== 1) throw failed('The agent left more than its socket behind.')
  } finally {
    closeSync(link)
  }
}

/** Post: what is connected is the agent of this burrow. */
export async function connectToAgent(first: FirstProcess): Promise<Socket> {
  const socket = await connectTo(`${linkOf(first)}/${SOCKET}`)
  // Alive now means alive before: the path led through this PID 1 and not through a later process with its number.
  if (await isAlive(first)) return socket
  socket.destroy()
  throw new Error('the burrow has ended')
}

function connectTo(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
  })
}

function failed(message: string): DormouseError {
  return new DormouseError('burrow_start_failed', message)
}
