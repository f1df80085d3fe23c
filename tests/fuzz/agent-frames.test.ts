import type { Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { AgentClient } from '../../packages/guest/src/agent-client.ts'
import { encodeFrame, FrameType, HEADER_BYTES } from '../../packages/guest/src/frames.ts'
import { FakeAgent } from '../../packages/guest/src/testing/fake-agent.ts'
import { heldBytes } from '../held-memory.ts'
import { type Dice, FUZZ_TIMEOUT_MS, fuzz } from './dice.ts'

/** A call that has not ended this long after its connection has hangs. */
const HANG_MS = 10_000
const HELD_MAX_BYTES = 64 * 1024 ** 2

const escaped: unknown[] = []
const note = (error: unknown) => escaped.push(error)
beforeEach(() => {
  process.on('unhandledRejection', note).on('uncaughtException', note)
})
afterEach(() => {
  process.off('unhandledRejection', note).off('uncaughtException', note)
})

test(
  'whatever an agent sends, every call ends with a value or a coded error, and the host holds little',
  async () => {
    const before = heldBytes()
    expect(await fuzz(playCase)).toBeGreaterThan(0)
    expect(heldBytes() - before).toBeLessThan(HELD_MAX_BYTES)
  },
  FUZZ_TIMEOUT_MS,
)

async function playCase(dice: Dice): Promise<void> {
  const agent = await FakeAgent.listen()
  const greeting = dice.chance(90) ? frame(FrameType.hello, 0, '{"protocol":1}') : anyBytes(dice, 0)
  agent.play = (socket, { type, channel }) => {
    if (type === FrameType.hello) send(socket, greeting, dice)
    else if (type === FrameType.request) answer(socket, channel, dice)
  }
  try {
    const calls = Array.from({ length: 1 + dice.number(4) }, () => settled(dice.one(CALLS)(agent.client)))
    for (let turn = dice.number(30); turn > 0; turn--) await setImmediate()
    // Whatever is still under way now ends with the connection.
    agent.client.close()
    const timer = new AbortController()
    const tooLong = sleep(HANG_MS, 'hangs', { signal: timer.signal }).catch(() => 'ended')
    const outcome = await Promise.race([Promise.all(calls), tooLong])
    timer.abort()
    if (outcome === 'hangs') throw new Error('a call hangs')
    await setImmediate()
    if (escaped.length > 0) throw new Error(`not caught: ${String(escaped.splice(0)[0])}`)
  } finally {
    agent.close()
  }
}

async function settled(call: Promise<unknown>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof DormouseError)) throw new Error(`an error without a code: ${String(error)}`)
  }
}

async function all(items: AsyncIterable<unknown>): Promise<void> {
  // As the server does with what it passes on.
  for await (const item of items) JSON.stringify(item)
}

const CALLS: readonly ((client: AgentClient) => Promise<unknown>)[] = [
  (client) => client.info(),
  (client) => client.runs.run({ code: '1' }),
  (client) => all(client.runs.stream({ code: '1' })),
  (client) => client.runs.interrupt('r'),
  (client) => client.contexts.list(),
  (client) => all(client.contexts.output('default')),
  (client) => client.processes.list(),
  (client) => all(client.processes.stream({ args: ['true'] })),
  (client) => client.processes.writeStdin('5', Buffer.alloc(3_000_000)),
  async (client) => {
    const process = await client.processes.connect({ args: ['true'] })
    process.write(Buffer.alloc(100)).catch(() => {})
    await all(process.output)
    await process.exit
  },
  (client) => client.files.stat('/x'),
  (client) => all(client.files.list('/')),
  (client) => all(client.files.read('/x')),
  (client) => client.files.write('/x', Buffer.alloc(3_000_000)),
  (client) => all(client.files.watch('/x')),
  (client) => client.ports.list(),
]

const TEXTS = [
  '{}',
  'null',
  '0',
  '""',
  '[]',
  '{"protocol":1}',
  '{"type":"open"}',
  '{"type":"end"}',
  '{"type":"start","processId":"pr-2222222222222222","pid":5}',
  '{"exitCode":0}',
  '{"exitCode":1e999}',
  '{"bytes":-1}',
  '{"pid":9007199254740993}',
  '{"processId":"pr-2222222222222222"}',
  '{"state":"finished"}',
  '{"runs":[]}',
  '{"runs":[null]}',
  '{"processes":{}}',
  '{"contexts":[{"context":"x"}]}',
  '{"ports":[{"port":70000,"address":"x"}]}',
  '{"seq":0,"type":"start","runId":"r","context":"c"}',
  '{"seq":0,"type":"start","processId":"pr-2222222222222222","pid":3}',
  '{"seq":1,"type":"stdout","data":"x"}',
  '{"seq":2,"type":"result","data":{"a":[[[]]]}}',
  '{"seq":2,"type":"result","data":[1]}',
  '{"seq":2,"type":"result","data":{"__proto__":null}}',
  '{"seq":3,"type":"exit","exitCode":0,"durationMs":1}',
  '{"seq":3,"type":"exit","exitCode":0,"durationMs":1e400}',
  '{"seq":-5,"type":"truncated","events":1,"bytes":1e15}',
  '{"code":"not_found","message":"x"}',
  '{"code":"__proto__","message":{}}',
  '{"code":"restore_failed","details":{"snapshotId":"x"}}',
  '{"__proto__":{"type":"open"},"constructor":{"prototype":{}}}',
  '{"path":"/x","name":"x","type":"file","sizeBytes":1,"mode":420,"uid":0,"gid":0,"user":"u","group":"g","modifiedAt":1}',
  '{"type":"moved","path":"/x","from":"/y"}',
  '{"type":"ready","path":"/x"}',
  '"\\ud800"',
  '{"type":"\\udc00"}',
  '"\\\\ud800"',
] // prettier-ignore
const TYPES = [
  ...Object.values(FrameType),
  FrameType.item,
  FrameType.item,
  FrameType.data,
  FrameType.end,
  0,
  9,
  255,
]

function answer(socket: Socket, channel: number, dice: Dice): void {
  const pieces = Array.from({ length: dice.number(8) }, () => anyBytes(dice, channel))
  if (dice.chance(50))
    pieces.push(frame(dice.one([FrameType.end, FrameType.error]), channel, dice.one(TEXTS)))
  send(socket, Buffer.concat(pieces), dice)
  if (dice.chance(10)) socket.end()
}

/** Frames, most of them as they should be, some of them changed. */
function anyBytes(dice: Dice, channel: number): Buffer {
  if (dice.chance(3)) return dice.bytes(dice.number(100))
  const to = dice.chance(90) ? channel : dice.one([0, 1, channel + 1, 0xffffffff])
  const bytes = encodeFrame(dice.one(TYPES), to, payload(dice))
  if (dice.chance(10)) bytes[dice.number(bytes.length)] = dice.number(256)
  if (dice.chance(3)) bytes.writeUInt32BE(dice.one([0, 1, 0xffffffff, 5_000_000, bytes.length]), 0)
  return dice.chance(3) ? bytes.subarray(0, HEADER_BYTES + dice.number(bytes.length)) : bytes
}

function payload(dice: Dice): Buffer {
  const kind = dice.number(20)
  if (kind === 0) return Buffer.alloc(0)
  if (kind === 1) return Buffer.from('['.repeat(dice.number(20_000)))
  if (kind === 2) return Buffer.from(`[${'[],'.repeat(dice.number(200_000))}[]]`)
  if (kind === 3) return Buffer.alloc(dice.one([1, 4, 5, 256 * 1024, 256 * 1024 + 1, 1024 ** 2]), 1)
  if (kind === 4) return Buffer.from([0, 0, dice.number(256), dice.number(256)])
  if (kind === 5) return dice.bytes(dice.number(64))
  const text = Buffer.from(dice.one(TEXTS))
  if (dice.chance(15)) text[dice.number(text.length)] = dice.one([0x22, 0x5c, 0x7b, 0x5d, 0x2c, 0xff, 0])
  return text
}

function frame(type: number, channel: number, text: string): Buffer {
  return encodeFrame(type, channel, Buffer.from(text))
}

/** In one piece, or cut anywhere. */
function send(socket: Socket, bytes: Buffer, dice: Dice): void {
  for (let at = 0; at < bytes.length; ) {
    const length = dice.chance(60) ? bytes.length : 1 + dice.number(40)
    socket.write(bytes.subarray(at, at + length))
    at += length
    if (at > 4_000) {
      socket.write(bytes.subarray(at))
      return
    }
  }
}
