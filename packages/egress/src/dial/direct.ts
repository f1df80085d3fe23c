import { connect, type Socket } from 'node:net'
import { DIAL_TIMEOUT_MS, KEEP_ALIVE_MS } from '../limits.ts'

export interface DirectTarget {
  /** An address where a sandbox has a say in it: nothing is resolved on the way, so it is what was judged that is dialed. */
  readonly host: string
  readonly port: number
}

/** A connection on which nothing has been read yet. Rejects when it cannot be made in time, or `signal` is aborted. */
export function dialDirect({ host, port }: DirectTarget, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      host,
      port,
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
    })
    const fail = (error: Error) => {
      clean()
      socket.destroy()
      reject(error)
    }
    const abort = () => fail(new Error('no longer wanted'))
    const timer = setTimeout(() => fail(new Error('no answer in time')), DIAL_TIMEOUT_MS)
    const clean = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
      socket.removeListener('error', fail)
      socket.on('error', () => {})
    }
    signal.addEventListener('abort', abort)
    socket.once('error', fail)
    socket.once('connect', () => {
      clean()
      resolve(socket)
    })
    if (signal.aborted) abort()
  })
}
