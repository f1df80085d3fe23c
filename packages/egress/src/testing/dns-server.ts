import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import * as dns from 'dns-packet'

export interface Asked {
  readonly name: string
  readonly type: string
  readonly transport: 'udp' | 'tcp'
}

export type Say =
  | 'nothing'
  | { readonly raw: (question: dns.DecodedPacket) => Buffer[] }
  | { readonly rcode?: number; readonly answers?: dns.Answer[]; readonly truncated?: boolean }

/** A name server on loopback that gives the answers it was made with, over UDP and TCP. */
export class DnsServer {
  readonly asked: Asked[] = []
  readonly #udp = createSocket('udp4')
  readonly #tcp = createServer()
  say: (asked: Asked) => Say

  constructor(say: (asked: Asked) => Say) {
    this.say = say
  }

  static async start(say: (asked: Asked) => Say): Promise<DnsServer> {
    const server = new DnsServer(say)
    server.#tcp.listen(0, '127.0.0.1')
    await once(server.#tcp, 'listening')
    server.#udp.bind((server.#tcp.address() as AddressInfo).port, '127.0.0.1')
    await once(server.#udp, 'listening')
    server.#udp.on('message', (bytes, { port, address }) => {
      for (const answer of server.#answers(bytes, 'udp')) server.#udp.send(answer, port, address)
    })
    server.#tcp.on('connection', (socket) => {
      socket.on('error', () => {})
      socket.once('data', (bytes) => {
        for (const answer of server.#answers(bytes.subarray(2), 'tcp')) {
          socket.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 0xff]), answer]))
        }
      })
    })
    return server
  }

  get address(): string {
    return `127.0.0.1:${this.#udp.address().port}`
  }

  async close(): Promise<void> {
    this.#tcp.close()
    await new Promise<void>((resolve) => this.#udp.close(resolve))
  }

  #answers(bytes: Buffer, transport: 'udp' | 'tcp'): Buffer[] {
    const packet = dns.decode(bytes)
    const { name = '', type = 'A' } = packet.questions?.[0] ?? {}
    this.asked.push({ name, type, transport })
    const said = this.say({ name, type, transport })
    if (said === 'nothing') return []
    if ('raw' in said) return said.raw(packet)
    return [reply(packet, said)]
  }
}

export function reply(
  packet: dns.DecodedPacket,
  said: { readonly rcode?: number; readonly answers?: dns.Answer[]; readonly truncated?: boolean },
): Buffer {
  return dns.encode({
    type: 'response',
    id: packet.id,
    flags: dns.RECURSION_AVAILABLE | (said.rcode ?? 0) | (said.truncated ? dns.TRUNCATED_RESPONSE : 0),
    questions: packet.questions,
    answers: said.truncated ? [] : said.answers,
  })
}

export const a = (name: string, data: string, ttl = 300): dns.Answer => ({ type: 'A', name, ttl, data })
export const aaaa = (name: string, data: string, ttl = 300): dns.Answer => ({ type: 'AAAA', name, ttl, data })
export const cname = (name: string, data: string, ttl = 300): dns.Answer => ({
  type: 'CNAME',
  name,
  ttl,
  data,
})

export function question(name: string, type = 'A', more: Partial<dns.Packet> = {}): Buffer {
  return dns.encode({
    type: 'query',
    id: 4711,
    flags: dns.RECURSION_DESIRED,
    questions: [{ name, type: type as dns.RecordType, class: 'IN' }],
    ...more,
  })
}
