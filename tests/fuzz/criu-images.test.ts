import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newVolumeId } from '@dormouse/contracts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseImage, serializeImage } from '../../packages/engine-linux/src/image/image-file.ts'
import type { Message } from '../../packages/engine-linux/src/image/message.ts'
import { PageWorker } from '../../packages/engine-linux/src/image/page-worker.ts'
import { DumpImages } from '../../packages/engine-linux/src/image-thread/dump-images.ts'
import { ImageThreads } from '../../packages/engine-linux/src/image-thread/image-threads.ts'
import { guardLibrary } from '../../packages/engine-linux/src/native-programs.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { heldBytes } from '../held-memory.ts'
import { type Dice, FUZZ_TIMEOUT_MS, fuzz } from './dice.ts'

const HELD_MAX_BYTES = 64 * 1024 ** 2
/** What the thread says when it had to be ended: everything else is an answer. */
const GAVE_UP = /take more than|has ended|thread that reads images failed/
/** Decoded when a snapshot is taken, kept up or restored. Pages are not: they go past in a program. */
const READ =
  /^(files|pstree|inventory|remap-fpath|pipes-data|fifo-data)\.img$|^(mm|pagemap|ids|fdinfo|tcp-stream|timens)-/

const factory = await linuxFactory()
const imageThreads = new ImageThreads()
const root = mkdtempSync(join(tmpdir(), 'dormouse-fuzz-'))
let images = ''
let memory = ''
let names: string[] = []

/** One of everything that has fields we look at. */
const TREE = `
import ctypes, os, select, socket, subprocess, threading, time
pipe = os.pipe(); os.write(pipe[1], b"in the pipe")
ears = socket.create_server(("127.0.0.1", 7000)); mouth = socket.create_connection(("127.0.0.1", 7000)); served, _ = ears.accept(); served.send(b"x")
ghost = open("/tmp/ghost", "w+"); ghost.write("deleted"); ghost.flush(); os.unlink("/tmp/ghost")
twice = open("/tmp/one", "w+"); os.link("/tmp/one", "/tmp/two"); os.unlink("/tmp/one")
timer = ctypes.CDLL(None).timerfd_create(1, 0); ctypes.CDLL(None).inotify_add_watch(ctypes.CDLL(None).inotify_init(), b"/tmp", 2)
data = bytearray(os.urandom(4_000_000))
child = subprocess.Popen(["sleep", "100000"])`

beforeAll(async () => {
  const engine = await factory.open()
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  expect(await burrow.guest.runs.run({ code: TREE })).toMatchObject({ exitCode: 0, stderr: '' })
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  const paths = factory.layout.snapshot(snapshot.id)
  images = paths.images
  memory = paths.memory
  names = readdirSync(images).filter((name) => READ.test(name))
  await engine[Symbol.asyncDispose]()
})
afterAll(async () => {
  rmSync(root, { recursive: true, force: true })
  await imageThreads[Symbol.asyncDispose]()
  await factory.cleanUp()
})

test(
  'whatever is in an image, reading it ends with an answer or an error, in bounded time and memory',
  async () => {
    expect(names.length).toBeGreaterThan(10)
    const before = heldBytes()
    expect(await fuzz(playCase)).toBeGreaterThan(0)
    expect(heldBytes() - before).toBeLessThan(HELD_MAX_BYTES)
  },
  FUZZ_TIMEOUT_MS,
)

async function playCase(dice: Dice): Promise<void> {
  const work = mkdtempSync(join(root, 'case-'))
  try {
    const rawDir = join(work, 'raw')
    makeDump(rawDir, dice)
    if (dice.chance(70)) await takeIn(rawDir, work)
    else await readSaved(rawDir, work)
  } finally {
    rmSync(work, { recursive: true })
  }
}

/** As when a snapshot is taken. */
async function takeIn(rawDir: string, work: string): Promise<void> {
  const [outDir, memoryDir] = [join(work, 'out'), join(work, 'memory')]
  for (const path of [outDir, memoryDir]) mkdirSync(path)
  await using pages = new PageWorker()
  const mounts = [{ volumeId: newVolumeId(), path: '/tmp', readOnly: false }]
  const into = { outDir, memoryDir, memoryId: 'fuzz', guard: { hostPath: guardLibrary } }
  await imageThreads.use(async (thread) => {
    const reading = DumpImages.read(thread, rawDir)
    await answered(reading)
    const dump = await reading.catch(() => undefined)
    if (dump !== undefined) {
      await answered(dump.detachFromVolumes({ mounts, volumesDir: work }))
      await answered(dump.refuseLoss([]))
      await answered(dump.mend())
      await answered(dump.map(into, pages))
    }
    await answered(thread.run('findRemapLinks', { rawDir }))
  })
  // Nothing is made but what has a name of ours.
  expect(readdirSync(memoryDir).filter((name) => !/^fuzz-\d+$/.test(name))).toEqual([])
  expect(readdirSync(outDir).filter((name) => !/^[\w-]+\.img$/.test(name))).toEqual([])
  expect(readdirSync(work).sort()).toEqual(['memory', 'out', 'raw'])
}

/** As when one is kept up, or restored. */
async function readSaved(imagesDir: string, work: string): Promise<void> {
  const from = { dir: work, images: imagesDir, memory, manifest: '', carried: '' }
  const mounts = [{ volumeId: newVolumeId(), path: '/usr', readOnly: false }]
  const gone = [1, 5, 9].map((fileId) => ({
    ...{ fileId, kind: 'file' as const, path: '/tmp/x', mode: 0o100644, isWritten: false },
    ...{ mappedBytes: 4096, privateBytes: 0 },
  }))
  await imageThreads.use(async (thread) => {
    await answered(thread.run('findOpenPaths', { imagesDir }))
    await answered(thread.run('findHiddenFile', { imagesDir, added: mounts, before: [] }))
    await answered(
      thread.run('replaceMissing', { imagesDir, memoryDir: memory, workDir: join(work, 'detached'), gone }),
    )
    await answered(thread.run('canConsolidate', { from, canClone: true }))
  })
}

async function answered(work: Promise<unknown>): Promise<void> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason as Error,
  )
  if (error !== undefined && GAVE_UP.test(error.message)) throw error
}

/** The real one, with one to three images changed. */
function makeDump(rawDir: string, dice: Dice): void {
  mkdirSync(rawDir)
  const changed = new Map<string, Uint8Array>()
  for (let n = 1 + dice.number(3); n > 0; n--) {
    const name = dice.one(names)
    const bytes = readFileSync(join(images, name))
    changed.set(name, dice.chance(50) ? changeFields(bytes, dice) : changeBytes(bytes, dice))
  }
  for (const name of readdirSync(images)) {
    const bytes = changed.get(name)
    if (bytes === undefined) linkSync(join(images, name), join(rawDir, name))
    else if (!dice.chance(2)) writeFileSync(join(rawDir, name), bytes)
  }
  expect(existsSync(rawDir) && statSync(rawDir).isDirectory()).toBe(true)
}

function changeBytes(bytes: Buffer, dice: Dice): Buffer {
  const at = dice.number(bytes.length)
  const kind = dice.number(6)
  if (kind === 0) return bytes.subarray(0, at)
  if (kind === 1)
    return Buffer.concat([bytes.subarray(0, at), dice.bytes(dice.number(40)), bytes.subarray(at)])
  if (kind === 2)
    return Buffer.concat([bytes, ...Array.from({ length: dice.number(2000) }, () => bytes.subarray(8))])
  if (kind === 3) return Buffer.concat([bytes, Buffer.alloc(dice.number(400_000))])
  const copy = Buffer.from(bytes)
  for (let n = 1 + dice.number(8); n > 0; n--) copy[dice.number(copy.length)] = dice.number(256)
  if (kind === 4 && copy.length >= 12) copy.writeUInt32LE(dice.one([0, 1, 0xffffffff, copy.length]), 8)
  return copy
}

const NUMBERS = [0n, 1n, 2n, 4095n, 0xffffffffn, 1n << 47n, 1n << 52n, (1n << 63n) - 1n, (1n << 64n) - 1n]

/** A message of protobuf may be in any order, with fields left out, repeated and out of range. */
function changeFields(bytes: Buffer, dice: Dice): Uint8Array {
  const image = parseImage(bytes)
  if (image === undefined || image.records.length === 0) return changeBytes(bytes, dice)
  for (let n = 1 + dice.number(4); n > 0; n--) {
    const at = dice.number(image.records.length)
    changeMessage(image.records[at]?.message ?? [], dice)
    if (dice.chance(10)) image.records.splice(at, 1)
    else if (dice.chance(11))
      image.records.push(...Array.from({ length: dice.number(500) }, () => image.records[at]!))
    if (image.records.length === 0) break
  }
  return serializeImage(image)
}

function changeMessage(message: Message, dice: Dice): void {
  if (message.length === 0) return
  const at = dice.number(message.length)
  const field = message[at]!
  if (dice.chance(15)) message.splice(at, 1)
  else if (dice.chance(10)) message.push(...Array.from({ length: dice.number(3000) }, () => ({ ...field })))
  else if (typeof field.value === 'bigint') field.value = dice.one(NUMBERS)
  else
    field.value = dice.chance(50)
      ? changeBytes(Buffer.from(field.value), dice).subarray(0, 100_000)
      : dice.bytes(dice.number(50))
}
