import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { describeHostPython, pythonLayer } from './host-programs.ts'
import { makeLayer, writeLayout } from './make-image.ts'
import { busyboxLayer, type Ran, run } from './test-images.ts'

/** Every template is started once, which takes long on a busy machine. */
const MINUTES = 300_000
vi.setConfig({ testTimeout: MINUTES, hookTimeout: MINUTES })

const ENV = { Env: ['PATH=/usr/local/bin:/bin'] }
const SITE = 'usr/lib/python3/dist-packages'
const host = describeHostPython()

let server: ServerProcess
let scratch: string
beforeAll(async () => {
  scratch = mkdtempSync(join(tmpdir(), 'dormouse-own-python-'))
  server = await ServerProcess.start({ builds: { memoryBytes: 512 * 1024 ** 2 } })
  const layers = [busyboxLayer, pythonLayer(host)]
  // IPython needs traitlets, and the library of the image comes first.
  const broken = makeLayer([{ path: `${SITE}/traitlets.py`, content: 'raise ImportError("not this one")\n' }])
  const old = makeLayer([
    { path: 'usr' },
    { path: 'usr/local' },
    { path: 'usr/local/bin' },
    { path: 'usr/local/bin/python3', content: '#!/bin/sh\necho 3.8\n', mode: 0o755 },
  ])
  const images = {
    own: layers,
    plain: [...layers, broken],
    old: [busyboxLayer, old],
  }
  for (const [name, of] of Object.entries(images)) {
    const layout = join(scratch, name)
    writeLayout(layout, of, ENV, { compression: 'zstd' })
    const template = await buildTemplate(server, { name, image: `oci:${layout}` })
    expect(template.error).toBeUndefined()
  }
})
afterAll(async () => {
  await server?.cleanUp()
  if (scratch !== undefined) rmSync(scratch, { recursive: true })
})

async function create(template: string): Promise<(code: string) => Promise<Ran>> {
  const { id } = await server.ok('/v1/sandboxes', { json: { template, name: `of-${template}` } })
  return (code) => run(server, { id, key: server.key, language: 'python' }, code)
}
const sleepAndWake = (template: string) =>
  server.ok(`/v1/sandboxes/of-${template}/standby`, { json: { tier: 'stored' } })

describe('an image with a Python of its own', () => {
  let python: (code: string) => Promise<Ran>
  beforeAll(async () => {
    python = await create('own')
  })

  test('runs code on it, with its libraries, with IPython and without a warning', async () => {
    const code = 'import sys, of_the_image\nprint("%d.%d" % sys.version_info[:2], of_the_image.version)'
    expect(await python(code)).toEqual({
      exitCode: 0,
      stdout: `${host.version} ${host.version}\n`,
      stderr: '',
    })
    expect(await python('!echo from the shell')).toMatchObject({ stdout: 'from the shell\n', exitCode: 0 })
    expect((await python('get_ipython().__class__.__name__')).exitCode).toBe(0)
  })

  test('keeps variables, event loop and threads through a sleep', async () => {
    await python('import asyncio\nx = 41\nasync def later():\n  await asyncio.sleep(0.1)\n  return x + 1')
    await sleepAndWake('own')
    expect((await python('print(await later())')).stdout).toBe('42\n')
  })

  test('stops at a time-out, and keeps its variables', async () => {
    const json = { code: 'while True: pass', language: 'python', timeoutMs: 300 }
    const stopped = await server.ok('/v1/sandboxes/of-own/run', { json })
    expect(stopped.error.name).toBe('RunTimeout')
    expect((await python('print(x)')).stdout).toBe('41\n')
  })
})

describe('a Python in which IPython does not load', () => {
  let python: (code: string) => Promise<Ran>
  beforeAll(async () => {
    python = await create('plain')
  })

  test('runs code all the same, and says so once', async () => {
    const first = await python('import sys\nx = 41\nprint("%d.%d" % sys.version_info[:2])')
    expect(first).toMatchObject({ exitCode: 0, stdout: `${host.version}\n` })
    expect(first.stderr).toContain('IPython does not load in this Python')
    expect(first.stderr).toContain('ImportError: not this one')
    expect(await python('x')).toMatchObject({ stderr: '' })
  })

  test('shows results, errors and awaits as with IPython', async () => {
    const result = async (code: string) =>
      (await server.ok('/v1/sandboxes/of-plain/run', { json: { code } })).results
    expect(await result('[x, 1]')).toEqual([{ 'text/plain': '[41, 1]' }])
    const html = 'class H:\n  def _repr_html_(self): return "<b>"\n  def __repr__(self): return "H"\nH()'
    expect(await result(html)).toEqual([{ 'text/plain': 'H', 'text/html': '<b>' }])
    expect(await result('import asyncio\nawait asyncio.sleep(0, 7)')).toEqual([{ 'text/plain': '7' }])
    expect(await result('_ + 1')).toEqual([{ 'text/plain': '8' }])
    expect(await python('1 / 0')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/<cell \d+>", line 1[\s\S]*ZeroDivisionError: division by zero\n$/),
    })
    expect((await python('!ls')).stderr).toContain('need IPython, which this Python cannot load')
    expect((await python('exit(3)')).exitCode).toBe(3)
  })

  test('sleeps, wakes and is stopped without losing a variable', async () => {
    await sleepAndWake('plain')
    expect((await python('print(x)')).stdout).toBe('41\n')
    const json = { code: 'while True: pass', language: 'python', timeoutMs: 300 }
    expect((await server.ok('/v1/sandboxes/of-plain/run', { json })).error.name).toBe('RunTimeout')
    expect((await python('print(x)')).stdout).toBe('41\n')
  })
})

test('an image with a Python that is too old runs code on the runtime, and says so once', async () => {
  const python = await create('old')
  const first = await python('import sys; print(sys.executable)')
  expect(first.stdout).toBe('/.dormouse/runtime/bin/python3\n')
  expect(first.stderr).toMatch(/\/usr\/local\/bin\/python3 is Python 3\.8, and contexts need 3\.9 or later/)
  expect(await python('print(1)')).toEqual({ exitCode: 0, stdout: '1\n', stderr: '' })
})
