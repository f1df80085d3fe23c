import type { Socket } from 'node:net'
import type { RawData, WebSocket } from 'ws'

/** More than this is not taken from one side before the other has room. */
const WAITING_MAX_BYTES = 1024 ** 2
const NORMAL = 1000

type Control =
  | { type: 'start' }
  | { type: 'end' }
  | { type: 'error'; error: { message: string; hint?: string } }

/** Bytes of a TCP connection both ways over a WebSocket; each half ends by itself. The connection comes paused. */
export function carry(socket: Socket, webSocket: WebSocket, onProblem: (problem: string) => void): void {
  giveTo(webSocket, socket)
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
    else onProblem([control.error.message, control.error.hint].filter(Boolean).join(' '))
  })
  webSocket.on('unexpected-response', (request, response) => {
    onProblem(`the server answered ${response.statusCode}`)
    request.destroy()
    socket.destroy()
  })
  webSocket.on('error', (error) => {
    onProblem(error.message)
    socket.destroy()
  })
  webSocket.on('close', (code) => {
    // Not ended in order: the one at the other end must not take it for the whole.
    if (code === NORMAL) socket.end()
    else socket.resetAndDestroy()
  })
  socket.on('close', () => {
    // A paused one would not hear the answer to its goodbye.
    webSocket.resume()
    webSocket.close()
  })
}

function giveTo(webSocket: WebSocket, socket: Socket): void {
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
