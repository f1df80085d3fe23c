import type { Socket } from 'node:net'

/** Ends a connection with a reset. Safe in every state, and more than once. */
export function reset(socket: Socket): void {
  if (socket.destroyed) return
  // An error of pending work must not become an uncaught exception.
  socket.on('error', () => {})
  // libuv refuses to reset a socket whose end is being written, and Node would then never close the descriptor.
  const isEnding = socket.writableEnded && !socket.writableFinished
  try {
    if (isEnding) socket.destroy()
    else socket.resetAndDestroy()
  } catch {
    // Only plain TCP sockets can be reset, not TLS to a proxy.
    socket.destroy()
  }
}
