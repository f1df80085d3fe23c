import * as dns from 'dns-packet'
import { DNS_UDP_DEFAULT_BYTES, DNS_UDP_MAX_BYTES } from '../limits.ts'

export type DnsRecord = dns.Answer

/** A question from a sandbox. `name` keeps its spelling, which the answer must repeat. */
export interface Query {
  readonly id: number
  readonly name: string
  readonly type: string
  readonly class: string
  /** The largest datagram that the client accepts; undefined without EDNS. */
  readonly ednsBytes: number | undefined
}

/** A query that cannot be answered, with as much of it as could be read. */
export interface BadQuery {
  readonly id: number
  readonly rcode: number
}

export const RCODE = { NOERROR: 0, FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const

/** EDNS option "extended error" (RFC 8914): shows people who use `dig` that the refusal is deliberate. */
const EXTENDED_ERROR_OPTION = 15
const PROHIBITED = 18

/** Returns undefined for packets that get no answer. Never throws. */
export function readQuery(bytes: Buffer): Query | BadQuery | undefined {
  const header = readHeader(bytes)
  if (header === undefined || header.isResponse) return undefined
  if (header.opcode !== 0) return { id: header.id, rcode: RCODE.NOTIMP }
  // Checked before unpacking, so that a packet with a thousand questions costs nothing.
  const [questions, answers, authorities, additionals] = header.counts
  if (questions !== 1 || answers !== 0 || authorities !== 0 || additionals > 2) {
    return { id: header.id, rcode: RCODE.FORMERR }
  }
  const packet = unpack(bytes)
  const question = packet?.questions?.[0]
  if (packet === undefined || question === undefined) return { id: header.id, rcode: RCODE.FORMERR }
  const edns = packet.additionals?.find((record) => record.type === 'OPT')
  return {
    id: header.id,
    name: question.name,
    type: question.type,
    class: question.class ?? 'IN',
    ednsBytes: edns?.type === 'OPT' ? clampUdpBytes(edns.udpPayloadSize) : undefined,
  }
}

export interface Reply {
  readonly rcode: number
  readonly records: readonly DnsRecord[]
  /** The reason of a refusal, sent as an extended error. */
  readonly prohibited?: string
}

/** A reply longer than `maxBytes` becomes an empty one with the "truncated" flag: the client asks again over TCP. */
export function writeReply(query: Query, reply: Reply, maxBytes: number): Buffer {
  const write = (records: readonly DnsRecord[], flags: number) =>
    dns.encode({
      type: 'response',
      id: query.id,
      flags: flags | dns.RECURSION_DESIRED | dns.RECURSION_AVAILABLE | reply.rcode,
      questions: [{ name: query.name, type: query.type as dns.RecordType, class: 'IN' }],
      answers: [...records],
      additionals: query.ednsBytes === undefined ? [] : [edns(reply.prohibited)],
    })
  const whole = write(reply.records, 0)
  return whole.length <= maxBytes ? whole : write([], dns.TRUNCATED_RESPONSE)
}

/** Leaves out the question, which may be the part that could not be read. */
export function writeBadReply({ id, rcode }: BadQuery): Buffer {
  return dns.encode({ type: 'response', id, flags: dns.RECURSION_AVAILABLE | rcode, questions: [] })
}

export function writeQuestion(id: number, name: string, type: string): Buffer {
  return dns.encode({
    type: 'query',
    id,
    flags: dns.RECURSION_DESIRED,
    questions: [{ name, type: type as dns.RecordType, class: 'IN' }],
    additionals: [edns(undefined)],
  })
}

export interface UpstreamReply {
  readonly rcode: number
  readonly isTruncated: boolean
  readonly answers: readonly DnsRecord[]
  readonly authorities: readonly DnsRecord[]
}

/** Returns undefined unless the packet answers exactly this question. */
export function readUpstreamReply(
  bytes: Buffer,
  asked: { readonly id: number; readonly name: string; readonly type: string },
): UpstreamReply | undefined {
  const header = readHeader(bytes)
  if (header === undefined || !header.isResponse || header.id !== asked.id || header.counts[0] !== 1) return
  const packet = unpack(bytes)
  const question = packet?.questions?.[0]
  if (packet === undefined || question === undefined) return undefined
  const isOurs =
    question.name.toLowerCase() === asked.name && question.type === asked.type && question.class === 'IN'
  if (!isOurs) return undefined
  return {
    rcode: header.rcode,
    isTruncated: packet.flag_tc,
    answers: packet.answers ?? [],
    authorities: packet.authorities ?? [],
  }
}

function clampUdpBytes(bytes: number): number {
  return Math.min(DNS_UDP_MAX_BYTES, Math.max(DNS_UDP_DEFAULT_BYTES, bytes))
}

function edns(prohibited: string | undefined): dns.OptAnswer {
  const code = Buffer.from([0, PROHIBITED])
  const options =
    prohibited === undefined
      ? []
      : [{ code: EXTENDED_ERROR_OPTION, data: Buffer.concat([code, Buffer.from(prohibited)]) }]
  return {
    type: 'OPT',
    name: '.',
    udpPayloadSize: DNS_UDP_MAX_BYTES,
    extendedRcode: 0,
    ednsVersion: 0,
    flags: 0,
    flag_do: false,
    options: options as unknown as dns.PacketOpt[],
  }
}

interface Header {
  readonly id: number
  readonly isResponse: boolean
  readonly opcode: number
  readonly rcode: number
  readonly counts: readonly [number, number, number, number]
}

function readHeader(bytes: Buffer): Header | undefined {
  if (bytes.length < 12) return undefined
  const flags = bytes.readUInt16BE(2)
  return {
    id: bytes.readUInt16BE(0),
    isResponse: (flags & 0x8000) !== 0,
    opcode: (flags >> 11) & 0xf,
    rcode: flags & 0xf,
    counts: [bytes.readUInt16BE(4), bytes.readUInt16BE(6), bytes.readUInt16BE(8), bytes.readUInt16BE(10)],
  }
}

/** dns-packet throws on malformed packets. */
function unpack(bytes: Buffer): dns.DecodedPacket | undefined {
  try {
    return dns.decode(bytes)
  } catch {
    return undefined
  }
}
