import type { Socket } from 'node:net'
import { onAbort } from '@dormouse/async'
import { DIAL_TIMEOUT_MS } from '../limits.ts'

/**
 * Waits until `start` resolves. Destroys the socket and rejects when that takes longer than the dial time-out, when the
 * socket fails or closes, or when `signal` aborts.
 */
export function untilConnected<Value>(
  socket: Socket,
  signal: AbortSignal,
  start: (resolve: (value: Value) => void, reject: (error: Error) => void) => void,
): Promise<Value> {
  if (signal.aborted) {
    socket.on('error', () => {})
    socket.destroy()
    return Promise.reject(new Error('aborted'))
  }
  return new Promise<Value>((resolve, reject) => {
    const stopWaiting = () => {
      clearTimeout(timer)
      listener[Symbol.dispose]()
      // An error that comes later must not become an uncaught exception.
      socket.on('error', () => {})
      socket.removeListener('error', fail)
      socket.removeListener('end', onClosed)
      socket.removeListener('close', onClosed)
    }
    const fail = (error: Error) => {
      stopWaiting()
      socket.destroy()
      reject(error)
    }
    const succeed = (value: Value) => {
      stopWaiting()
      resolve(value)
    }
    const onClosed = () => fail(new Error('the other side closed the connection'))
    const timer = setTimeout(() => fail(new Error('no connection in time')), DIAL_TIMEOUT_MS)
    socket.on('error', fail)
    socket.on('end', onClosed)
    socket.on('close', onClosed)
    const listener = onAbort(signal, () => fail(new Error('aborted')))
    start(succeed, fail)
  })
}
