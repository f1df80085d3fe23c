import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { VolumeBench } from './volume-bench.ts'

/** Numbers of linux/fuse.h. */
const [LOOKUP, MKDIR, UNLINK, RENAME, OPEN, WRITE, SYMLINK, CREATE] = [1, 9, 10, 12, 14, 16, 6, 35]
const ROOT = 1n
const HEADER_BYTES = 40
const EINVAL = 22
const ESTALE = 116
const ENOTDIR = 20
const ELOOP = 40

let unique = 1n << 40n

function message(opcode: number, nodeId: bigint, body: Buffer, length = HEADER_BYTES + body.length): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.writeUInt32LE(length, 0)
  header.writeUInt32LE(opcode, 4)
  unique += 1n
  header.writeBigUInt64LE(unique, 8)
  header.writeBigUInt64LE(nodeId, 16)
  return Buffer.concat([header, body])
}

/** What a guest does that speaks to the server itself: one request after the other. */
class LyingGuest {
  readonly #socket: Socket
  readonly #answers: AsyncIterator<Buffer>
  #received = Buffer.alloc(0)

  private constructor(socket: Socket) {
    this.#socket = socket
    this.#answers = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }

  static async connect(bench: VolumeBench): Promise<LyingGuest> {
    bench.cut()
    const socket = connect(bench.requestSocket)
    await once(socket, 'connect')
    return new LyingGuest(socket)
  }

  /** The error of the answer; undefined when the server has hung up. */
  async ask(bytes: Buffer): Promise<number | undefined> {
    const answer = await this.answer(bytes)
    return answer === undefined ? undefined : Math.abs(answer.readInt32LE(4))
  }

  async answer(bytes: Buffer): Promise<Buffer | undefined> {
    this.#socket.write(bytes)
    // An answer begins with its length, and may come in pieces.
    while (this.#received.length < 4 || this.#received.length < this.#received.readUInt32LE(0)) {
      const { value, done } = await this.#answers.next()
      if (done === true) return undefined
      this.#received = Buffer.concat([this.#received, value])
    }
    const lengthBytes = this.#received.readUInt32LE(0)
    const answer = this.#received.subarray(0, lengthBytes)
    this.#received = this.#received.subarray(lengthBytes)
    return answer
  }

  send(bytes: Buffer): void {
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.destroy()
  }
}

test('names that lead elsewhere, and numbers that the server never gave, are refused', async () => {
  await using bench = await VolumeBench.open()
  const guest = await LyingGuest.connect(bench)
  const text = (name: string) => Buffer.from(`${name}\0`)
  for (const name of ['..', '.', '', '../x', '/etc', 'a/b'])
    for (const opcode of [LOOKUP, UNLINK])
      expect(await guest.ask(message(opcode!, ROOT, text(name))), name).toBe(EINVAL)
  expect(await guest.ask(message(LOOKUP!, ROOT, Buffer.from('no end')))).toBe(EINVAL)
  expect(await guest.ask(message(MKDIR!, ROOT, Buffer.concat([Buffer.alloc(8), text('../made')])))).toBe(
    EINVAL,
  )
  expect(await guest.ask(message(CREATE!, ROOT, Buffer.concat([Buffer.alloc(16), text('../made')])))).toBe(
    EINVAL,
  )
  expect(
    await guest.ask(message(RENAME!, ROOT, Buffer.concat([Buffer.alloc(8, 1), text('a'), text('b')]))),
  ).toBe(ESTALE)
  expect(await guest.ask(message(SYMLINK!, ROOT, text('link without target')))).toBe(EINVAL)
  expect(await guest.ask(message(OPEN!, 77n, Buffer.alloc(8)))).toBe(ESTALE)
  expect(await guest.ask(message(WRITE!, ROOT, Buffer.alloc(40)))).toBe(9)
  expect(await guest.ask(message(OPEN!, ROOT, Buffer.alloc(0)))).toBe(EINVAL)
  expect(await guest.ask(message(9999, ROOT, Buffer.alloc(0)))).toBe(38)
  guest.close()
  expect((await readdir(bench.dir)).filter((name) => name.startsWith('made'))).toEqual([])
})

test('a link in the volume leads nowhere outside of it', async () => {
  await using bench = await VolumeBench.open()
  const code = 'import os; os.symlink("/etc", volume + "/out"); os.symlink("..", volume + "/up")'
  expect(await bench.python(code)).toBe('')
  const guest = await LyingGuest.connect(bench)
  const follow = async (name: string, opcode: number, body: Buffer) => {
    const entry = await guest.answer(message(LOOKUP!, ROOT, Buffer.from(`${name}\0`)))
    return guest.ask(message(opcode, entry!.readBigUInt64LE(16), body))
  }
  for (const name of ['out', 'up']) {
    expect(await follow(name, LOOKUP!, Buffer.from('passwd\0'))).toBe(ENOTDIR)
    expect(await follow(name, MKDIR!, Buffer.concat([Buffer.alloc(8), Buffer.from('made\0')]))).toBe(ENOTDIR)
    expect(await follow(name, OPEN!, Buffer.alloc(8))).toBe(ELOOP)
  }
  guest.close()
})

test('messages without sense end the connection or get an error, and the next guest is served', async () => {
  await using bench = await VolumeBench.open()
  expect(await bench.python('open(volume + "/f", "w").write("kept")')).toBe('')
  for (const length of [0, HEADER_BYTES - 1, 1024 ** 2, 2 ** 32 - 1]) {
    const guest = await LyingGuest.connect(bench)
    expect(await guest.ask(message(LOOKUP!, ROOT, Buffer.alloc(0), length)), String(length)).toBeUndefined()
  }
  let seed = 20_261_118
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0
    return (seed >>> 8) % below
  }
  for (let round = 0; round < 20; round++) {
    const guest = await LyingGuest.connect(bench)
    for (let count = 0; count < 100; count++) {
      const body = Buffer.from(Array.from({ length: random(200) }, () => random(256)))
      guest.send(message(1 + random(52), BigInt(random(4)), body))
    }
    // Half of the time without waiting for the answers.
    if (round % 2 === 0) await guest.ask(message(LOOKUP!, ROOT, Buffer.from('f\0')))
    guest.close()
  }
  await bench.join()
  const state = await bench.sleep()
  await bench.serve({ state })
  expect(await bench.python('import os; print(os.path.exists(volume + "/f"))')).toBe('True')
  // A state that was tampered with is refused.
  await bench.sleep()
  for (const cut of [state.subarray(0, 40), Buffer.concat([state.subarray(0, 30), Buffer.alloc(64, 0x4e)])])
    expect(await bench.start(cut)).toMatch(/^error /)
  await bench.serve({ state })
})
