import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { connect, isIPv6 } from 'node:net'
import type { NameServer } from './name-servers.ts'
import { readUpstreamReply, type UpstreamReply, writeQuestion } from './packet.ts'

interface Asked {
  readonly id: number
  readonly name: string
  readonly type: string
}

/**
 * Sends one question to one server, over UDP, then over TCP when the answer was truncated. Rejects when none comes in
 * time.
 */
export async function askServer(
  server: NameServer,
  question: { readonly name: string; readonly type: string },
  timeoutMs: number,
): Promise<UpstreamReply> {
  const reply = await askUdp(server, { ...question, id: randomInt(0x10000) }, timeoutMs)
  if (!reply.isTruncated) return reply
  return askTcp(server, { ...question, id: randomInt(0x10000) }, timeoutMs)
}

/**
 * Uses a new socket for each question, so that the port is as hard to guess as the id. A connected socket receives from
 * that server only.
 */
function askUdp(server: NameServer, asked: Asked, timeoutMs: number): Promise<UpstreamReply> {
  const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4')
  return new Promise<UpstreamReply>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the name server does not answer')), timeoutMs)
    socket.once('close', () => clearTimeout(timer))
    socket.on('error', reject)
    socket.on('message', (bytes) => {
      // Anything else is a forged answer: the real one may still come.
      const reply = readUpstreamReply(bytes, asked)
      if (reply !== undefined) resolve(reply)
    })
    // Not as a callback of `connect`, which Node also calls with an error.
    socket.once('connect', () => {
      socket.send(writeQuestion(asked.id, asked.name, asked.type), (error) => {
        if (error) reject(error)
      })
    })
    socket.connect(server.port, server.address)
  }).finally(() => socket.close())
}

function askTcp(server: NameServer, asked: Asked, timeoutMs: number): Promise<UpstreamReply> {
  const socket = connect({ host: server.address, port: server.port })
  return new Promise<UpstreamReply>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the name server does not answer')), timeoutMs)
    socket.once('close', () => {
      clearTimeout(timer)
      reject(new Error('the name server closed the connection'))
    })
    socket.on('error', reject)
    let received = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return
      const reply = readUpstreamReply(received.subarray(2, 2 + received.readUInt16BE(0)), asked)
      if (reply === undefined) reject(new Error('the name server answered another question'))
      else resolve(reply)
    })
    socket.once('connect', () => {
      const question = writeQuestion(asked.id, asked.name, asked.type)
      const length = Buffer.alloc(2)
      length.writeUInt16BE(question.length)
      socket.write(Buffer.concat([length, question]))
    })
  }).finally(() => socket.destroy())
}
