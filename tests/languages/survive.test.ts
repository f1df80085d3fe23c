import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { afterAll, describe, expect, test } from 'vitest'
import { forkBurrow } from '../../packages/engine/src/contract/fork-burrow.ts'
import { useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { putNode } from './put-node.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

/** A timer, a server with a client, a promise, a child process, a worker and large memory. */
const SET_UP = `
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import { Worker } from 'node:worker_threads'
import zlib from 'node:zlib'
let ticks = 0
setInterval(() => { ticks += 1 }, 10)
const server = http.createServer((request, response) => response.end('served ' + request.url))
server.listen(8123); await once(server, 'listening')
const child = spawn('cat'); let said = ''; child.stdout.on('data', (data) => { said += data })
const worker = new Worker('let n = 0; require("worker_threads").parentPort.on("message", () => ' +
  'require("worker_threads").parentPort.postMessage(++n))', { eval: true })
const ask = async () => { worker.postMessage(1); return (await once(worker, 'message'))[0] }
await ask()
const buffer = Buffer.alloc(50_000_000, 7)
const objects = Array.from({ length: 100_000 }, (_, id) => ({ id, text: 'x' + id }))
const hot = (n) => { let sum = 0; for (let i = 0; i < n; i += 1) sum += objects[i % 1000].id; return sum }
for (let i = 0; i < 200; i += 1) hot(10_000)
let release; const promise = new Promise((resolve) => { release = resolve })
const waits = promise.then((value) => value * 2)
const packed = zlib.gzipSync('kept')
class Kept { #secret = 5; get secret() { return this.#secret } }
const kept = new Kept(); const seen = new WeakMap([[kept, 'yes']])
`
const CHECK = `
const before = ticks; while (ticks === before) await new Promise((resolve) => setTimeout(resolve, 5))
const answer = await (await fetch('http://127.0.0.1:8123/x')).text()
said = ''; child.stdin.write('echo'); while (said !== 'echo') await new Promise((resolve) => setTimeout(resolve, 5))
const counted = await ask()
JSON.stringify([answer, counted > 1, buffer[49_999_999], objects[99_999].text, hot(1000),
  zlib.gunzipSync(packed).toString(), kept.secret, seen.get(kept)])
`
const EXPECTED = JSON.stringify(['served /x', true, 7, 'x99999', 499_500, 'kept', 5, 'yes'])

describe('a Node kernel', () => {
  const shared = useSharedBurrow(factory)
  const javascript = async ({ guest }: Burrow, code: string) => {
    const { results, error } = await guest.runs.run({ code, language: 'javascript', timeoutMs: 60_000 })
    expect(error).toBeUndefined()
    return String(results.at(-1)?.['text/plain'])
  }

  test('sleeps on disk and forks with its timers, servers, promises, children and threads', async () => {
    const { burrow } = shared
    await putNode(burrow.guest)
    await burrow.guest.contexts.create({ context: 'shell', language: 'bash' })
    await burrow.guest.runs.run({ code: 'x=kept; cd /tmp; f() { echo "$x in $PWD"; }', context: 'shell' })
    await burrow.guest.runs.run({ code: 'python3 -m venv --without-pip /root/venv', language: 'bash' })
    await burrow.guest.contexts.create({ context: 'venv', python: '/root/venv' })
    await burrow.guest.runs.run({ code: 'import sys; kept = 21', context: 'venv' })
    await javascript(burrow, SET_UP)
    expect(await javascript(burrow, CHECK)).toBe(`'${EXPECTED}'`)

    const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
    const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
    expect(await javascript(woken, CHECK)).toBe(`'${EXPECTED}'`)
    const { parent, children } = await forkBurrow(shared.engine, woken, { sandboxIds: [newSandboxId()] })
    for (const each of [parent, ...children]) {
      shared.hold(each)
      expect(await javascript(each, CHECK)).toBe(`'${EXPECTED}'`)
      expect(await javascript(each, 'release(21); await waits')).toBe('42')
      expect(await javascript(each, 'dormouse.sandboxId()')).toBe(`'${each.sandboxId}'`)
      const shell = await each.guest.runs.run({ code: 'f', context: 'shell' })
      expect(shell.stdout).toBe('kept in /tmp\n')
      const venv = await each.guest.runs.run({ code: 'print(kept * 2, sys.prefix)', context: 'venv' })
      expect(venv.stdout).toBe('42 /root/venv\n')
    }
    const random = 'String([Math.random(), crypto.randomUUID()])'
    const [mine, childs] = await Promise.all([parent, children[0]!].map((each) => javascript(each, random)))
    expect(mine?.split(',')[0]).not.toBe(childs?.split(',')[0])
    expect(mine?.split(',')[1]).not.toBe(childs?.split(',')[1])
  })

  test('continues a run that a sleep interrupted, then calls dormouse.onResume', async () => {
    const burrow = await shared.create()
    await putNode(burrow.guest)
    await javascript(burrow, 'let woken = []; dormouse.onResume(async () => { woken.push("resumed") })')
    const code =
      'console.log("before"); await new Promise((resolve) => setTimeout(resolve, 1500)); console.log("after")'
    const run = burrow.guest.runs.stream({ code, language: 'javascript' })
    let runId = ''
    for await (const event of run) {
      if (event.type === 'start') runId = event.runId
      if (event.type === 'stdout') break
    }
    const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
    const restored = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
    let output = ''
    for await (const event of restored.guest.runs.events(runId))
      if (event.type === 'stdout') output += event.data
    expect(output).toBe('before\nafter\n')
    expect(await javascript(restored, 'String(woken)')).toBe("'resumed'")
  })
})
