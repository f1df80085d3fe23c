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

/** One question to one server: over UDP, and over TCP when the answer did not fit. Rejects when there is none in time. */
export async function askServer(
  server: NameServer,
  question: { readonly name: string; readonly type: string },
  timeoutMs: number,
): Promise<UpstreamReply> {
  const reply = await askUdp(server, { ...question, id: randomInt(0x10000) }, timeoutMs)
  if (!reply.isTruncated) return reply
  return askTcp(server, { ...question, id: randomInt(0x10000) }, timeoutMs)
}

/** A socket for each question: its port is as hard to guess as its id. Being connected, it hears that server only. */
function askUdp(server: NameServer, asked: Asked, timeoutMs: number): Promise<UpstreamReply> {
  const socket = createSocket(isIPv6(server.address) ? 'udp6' : 'udp4')
  return new Promise<UpstreamReply>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('the name server does not answer')), timeoutMs)
    socket.once('close', () => clearTimeout(timer))
    socket.on('error', reject)
    socket.on('message', (bytes) => {
      // What does not belong to the question is a stranger's guess: the real answer may still come.
      const reply = readUpstreamReply(bytes, asked)
      if (reply !== undefined) resolve(reply)
    })
    // Not a callback of `connect`: that one would be told of an error, too, and look as if all were well.
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
      reject(new Error('the name server has hung up'))
    })
    socket.on('error', reject)
    let received = Buffer.alloc(0)
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk])
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return
      const reply = readUpstreamReply(received.subarray(2, 2 + received.readUInt16BE(0)), asked)
      if (reply === undefined) reject(new Error('the name server has answered something else'))
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
