import type { Duplex } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { GuestLink } from '../link/guest-link.ts'

/** See `GuestPorts.connect`. */
export async function connectToPort(
  link: GuestLink,
  port: number,
  { signal }: { signal?: AbortSignal } = {},
): Promise<Duplex> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new DormouseError('invalid_argument', `port: ${port} is not a port from 1 to 65535`)
  const stream = await link.open({ port }).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ECONNREFUSED') throw cause
    throw new DormouseError('port_closed', `nothing listens on port ${port}`, {
      details: { port, reason: 'nothing_listens' },
      cause,
    })
  })
  stream.explain = (error) =>
    error instanceof DormouseError
      ? error
      : new DormouseError('port_closed', `the program inside closed the connection to port ${port}`, {
          details: { port },
          cause: error,
        })
  const aborted = () => new DormouseError('cancelled', 'The call was cancelled.', { cause: signal?.reason })
  if (signal?.aborted) {
    stream.destroy()
    throw aborted()
  }
  const listener = onAbort(signal, () => stream.destroy(aborted()))
  stream.once('close', () => listener[Symbol.dispose]())
  return stream
}
