import { closeSync, fchownSync, lstatSync, openSync, readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { type FirstProcess, isAlive } from '../process/first-process.ts'

const SOCKET = 'agent.sock'

/**
 * The directory of the agent's socket, through the root of PID 1. No process inside can lead this path elsewhere: both
 * directories on the way are mount points, which cannot be renamed or removed in the mount namespace they belong to.
 */
function socketDirectory({ pid }: FirstProcess): string {
  return `/proc/${pid}/root/.dormouse/run`
}

/**
 * Gives the directory of the agent's socket to root of the host, once the agent has made its socket. From then on no
 * process inside can replace the socket, for example by a symlink that makes the host connect somewhere else. The owner
 * changes before the content is checked, so nothing can be added in between.
 */
export async function lockAgentSocket(first: FirstProcess): Promise<void> {
  // By descriptor: if PID 1 has ended, its number may already be that of another process.
  const fd = openSync(socketDirectory(first), 'r')
  try {
    if (!(await isAlive(first))) throw failed('The burrow ended while it started.')
    fchownSync(fd, 0, 0)
    const directory = `/proc/self/fd/${fd}`
    const names = readdirSync(directory)
    const isSocket = lstatSync(`${directory}/${SOCKET}`, { throwIfNoEntry: false })?.isSocket() === true
    if (!isSocket) throw failed('The agent left no socket behind.')
    if (names.length !== 1) throw failed('The agent left more than its socket behind.')
  } finally {
    closeSync(fd)
  }
}

/** Post: the socket is connected to the agent of this burrow. */
export async function connectToAgent(first: FirstProcess): Promise<Socket> {
  const socket = await connectTo(`${socketDirectory(first)}/${SOCKET}`)
  // PID 1 is alive now, so it was alive before: the path did not lead through a later process with its number.
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
