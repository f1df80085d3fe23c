import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { closeConnections } from '../../packages/engine-linux/src/image/close-connections.ts'
import { parseImage, serializeImage } from '../../packages/engine-linux/src/image/image-file.ts'
import { getUint, setUint } from '../../packages/engine-linux/src/image/message.ts'
import { connectedSockets, streamName } from '../../packages/engine-linux/src/image/tcp-socket.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
let engine: Engine
let scratch: string
beforeAll(async () => {
  engine = await factory.open()
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-broken-'))
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
  rmSync(scratch, { recursive: true, force: true })
})

/** Two connections of a program with itself; on one of them 12,345 bytes wait. */
const CONNECT = `
import socket
listener = socket.create_server(("127.0.0.1", 7000))
def pair():
    near = socket.create_connection(("127.0.0.1", 7000)); far, _ = listener.accept()
    near.settimeout(5); far.settimeout(5)
    return near, far
one, two = pair(), pair()
two[0].sendall(b"x" * 12345)
def say(near, far):
    try: near.sendall(b"still"); return far.recv(5).decode()
    except OSError as error: return type(error).__name__
kept = 41`

async function python({ guest }: Burrow, code: string): Promise<string> {
  const { stdout, error } = await guest.runs.run({ code })
  return error?.traceback ?? stdout
}

async function saveConnected() {
  const sandboxId = newSandboxId()
  const burrow = await engine.createBurrow({ sandboxId, template: 'python' })
  expect(await python(burrow, CONNECT)).toBe('')
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  return { sandboxId, id: snapshot.id, images: factory.layout.snapshot(snapshot.id).images }
}

/** Makes the kernel refuse what CRIU restores. The engine has verified the file, and does not notice the change. */
function breakStream(path: string): void {
  const [sendWindow, largest] = [14, 15]
  const bytes = readFileSync(path)
  const image = parseImage(bytes)
  const message = image?.records[0]?.message
  if (image === undefined || message === undefined) throw new Error('no stream')
  const window = getUint(message, sendWindow)
  expect(getUint(message, largest)).toBeGreaterThanOrEqual(window)
  // As large as fits into as many bytes.
  setUint(message, sendWindow, 128n ** BigInt(Math.ceil(window.toString(2).length / 7)) - 1n)
  const broken = serializeImage(image)
  expect(broken.length).toBe(bytes.length)
  const reference = join(scratch, 'times')
  execFileSync('touch', ['-r', path, reference])
  writeFileSync(path, broken)
  execFileSync('touch', ['-r', reference, path])
}

test('a connection that the kernel refuses is closed, and the sandbox wakes', async () => {
  const { sandboxId, id, images } = await saveConnected()
  const files = parseImage(readFileSync(join(images, 'files.img')))
  const [first] = files === undefined ? [] : connectedSockets(files)
  if (first === undefined) throw new Error('no connection')
  breakStream(join(images, streamName(first.socket)))
  const before = engine.failures.get('network') ?? 0
  await using burrow = await engine.restore(id, { sandboxId })
  expect(await python(burrow, 'print(kept + 1, say(*one), say(*two))')).toMatch(
    /^42 (?:BrokenPipe|OS)Error (?:BrokenPipe|OS)Error\n$/,
  )
  expect(await python(burrow, 'three = pair(); print(say(*three))')).toBe('still\n')
  expect(engine.failures.get('network')).toBe(before + 1)
})

test('only connections with a queue of the size that CRIU names are closed, both ends of them', async () => {
  const { images } = await saveConnected()
  const close = (name: string, queueBytes: number | undefined) =>
    closeConnections({ imagesDir: images, workDir: join(scratch, name), queueBytes })
  expect(await close('two', 12_345)).toBe(2)
  expect(await close('none', 12_346)).toBe(0)
  expect(await close('all', undefined)).toBe(4)
})
