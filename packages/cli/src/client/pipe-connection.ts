import type { Socket } from 'node:net'
import type { RawData, WebSocket } from 'ws'

/** Reading from the socket pauses while more than this is unsent. */
const WAITING_MAX_BYTES = 1024 ** 2
const NORMAL = 1000

type Control =
  | { type: 'start' }
  | { type: 'end' }
  | { type: 'error'; error: { message: string; hint?: string } }

/**
 * Pipes a TCP connection over a WebSocket in both directions. Each direction ends on its own. `socket` must be
 * paused.
 */
export function pipeConnection(
  socket: Socket,
  webSocket: WebSocket,
  onError: (message: string) => void,
): void {
  sendToWebSocket(webSocket, socket)
  webSocket.on('message', (data: RawData, isBinary: boolean) => {
    if (isBinary) {
      if (socket.write(data as Buffer)) return
      webSocket.pause()
      socket.once('drain', () => webSocket.resume())
      return
    }
    const control = JSON.parse(String(data)) as Control
    if (control.type === 'start') socket.resume()
    else if (control.type === 'end') socket.end()
    else onError([control.error.message, control.error.hint].filter(Boolean).join(' '))
  })
  webSocket.on('unexpected-response', (request, response) => {
    onError(`the server responded with status ${response.statusCode}`)
    request.destroy()
    socket.destroy()
  })
  webSocket.on('error', (error) => {
    onError(error.message)
    socket.destroy()
  })
  webSocket.on('close', (code) => {
    // An abnormal close must not look like a complete transfer.
    if (code === NORMAL) socket.end()
    else socket.resetAndDestroy()
  })
  socket.on('close', () => {
    // A paused WebSocket would not receive the reply to its close frame.
    webSocket.resume()
    webSocket.close()
  })
}

function sendToWebSocket(webSocket: WebSocket, socket: Socket): void {
  socket.on('data', (piece) => {
    if (webSocket.readyState !== webSocket.OPEN) return
    webSocket.send(piece, () => {
      if (socket.isPaused() && webSocket.bufferedAmount < WAITING_MAX_BYTES) socket.resume()
    })
    if (webSocket.bufferedAmount >= WAITING_MAX_BYTES) socket.pause()
  })
  socket.on('end', () => {
    if (webSocket.readyState === webSocket.OPEN) webSocket.send('{"type":"end"}')
  })
}
