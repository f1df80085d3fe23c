import { lstat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 3

/**
 * Connects to a socket that QEMU makes. `isOver` ends the wait, because QEMU has ended.
 * Pre: until the directory belongs to root, QEMU has seen nothing that its guest wrote.
 */
export async function connectWhenMade(path: string, isOver: () => Promise<boolean>): Promise<Socket> {
  for (;;) {
    const stat = await lstat(path).catch(() => undefined)
    const socket = stat?.isSocket() ? await connectSocket(path).catch(() => undefined) : undefined
    if (socket !== undefined) return socket
    if (await isOver()) throw new Error('QEMU has ended')
    await sleep(POLL_MS)
  }
}

export function connectSocket(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path })
    socket.once('connect', () => {
      socket.off('error', reject)
      resolve(socket)
    })
    socket.once('error', reject)
  })
}
