import type { Socket } from 'node:net'

/** Ends a connection at once and lets the other side see it as broken. Safe in every state, and more than once. */
export function reset(socket: Socket): void {
  if (socket.destroyed) return
  // Whatever is still under way must not become an error that nobody hears.
  socket.on('error', () => {})
  // While the end of our direction is on its way, libuv refuses to reset, and Node would then never close the descriptor.
  const isEnding = socket.writableEnded && !socket.writableFinished
  try {
    if (isEnding) socket.destroy()
    else socket.resetAndDestroy()
  } catch {
    // Only plain TCP can be reset; TLS to a proxy cannot.
    socket.destroy()
  }
}
