// The server's side of WebSockets. Frames are shorter than 126 bytes.
import { createHash } from 'node:crypto'

/** Accepts the WebSocket; calls `onText` with each frame's text. */
export function acceptWebSocket(request, socket, onText) {
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
  const accept = createHash('sha1').update(key).digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  socket.on('error', () => {})
  socket.on('data', (frame) => {
    const mask = frame.subarray(2, 6)
    onText(frame.subarray(6).map((byte, index) => byte ^ mask[index % 4]))
  })
}

export function sendText(socket, text) {
  socket.write(Buffer.concat([Buffer.from([0x81, text.length]), Buffer.from(text)]))
}
