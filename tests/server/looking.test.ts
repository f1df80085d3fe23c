import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
  await server.ok('/v1/sandboxes', { json: { name: 'dale', idleTimeoutMs: 0 } })
})
afterAll(() => server?.cleanUp())

const dale = '/v1/sandboxes/dale'
const stateOf = async () => (await server.ok(dale)).state
const sleep = (tier: 'frozen' | 'stored' = 'stored') => server.ok(`${dale}/standby`, { json: { tier } })
const variables = async () => {
  const { isLive, contexts } = await server.ok(`${dale}/variables`)
  const all = contexts.flatMap((one: { variables: object[] }) => one.variables)
  return { isLive, values: Object.fromEntries(all.map((one: Variable) => [one.name, one.preview])) }
}
interface Variable {
  readonly name: string
  readonly preview: string
}

describe('variables of a sandbox', () => {
  it('are those of its contexts, in every language that shows them', async () => {
    await server.ok(`${dale}/run`, { json: { code: 'x = 1; words = ["a", "b"]' } })
    await server.ok(`${dale}/contexts`, { json: { name: 'shell', language: 'bash' } })
    await server.ok(`${dale}/run`, {
      json: { code: 'greeting="hi there"; list=(1 2 3)', context: 'shell' },
    })
    const { contexts } = await server.ok(`${dale}/variables`)
    expect(contexts).toMatchObject([
      { name: 'default', language: 'python', state: 'idle', variables: [{ name: 'x' }, { name: 'words' }] },
      { name: 'shell', language: 'bash', state: 'idle' },
    ])
    expect(contexts[1].variables).toEqual([
      { name: 'greeting', type: 'string', preview: '"hi there"', bytes: 10 },
      { name: 'list', type: 'array', shape: [3], preview: '([0]="1" [1]="2" [2]="3")', bytes: 25 },
    ])
    expect(await server.run('dale', 'print(x)')).toBe('1\n')
  })

  it('are shown as of the last sleep, without waking, also by a server that was killed', async () => {
    await server.run('dale', 'x = 2')
    await sleep('frozen')
    expect(await variables()).toMatchObject({ isLive: false, values: { x: '2', greeting: '"hi there"' } })
    await sleep('stored')
    expect(await variables()).toMatchObject({ isLive: false, values: { x: '2' } })
    await server.kill()
    await server.begin()
    expect(await variables()).toMatchObject({ isLive: false, values: { x: '2' } })
    expect(await stateOf()).toBe('standby')
    await server.run('dale', 'x = 3')
    expect(await variables()).toMatchObject({ isLive: true, values: { x: '3' } })
  })

  it('of a sleeping sandbox go back with a rollback', async () => {
    await server.ok(`${dale}/snapshots`, { json: { name: 'three' } })
    await server.run('dale', 'x = 4')
    await sleep()
    expect(await variables()).toMatchObject({ values: { x: '4' } })
    await server.ok(`${dale}/rollback`, { json: { snapshotId: 'three' } })
    expect(await stateOf()).toBe('standby')
    expect(await variables()).toMatchObject({ isLive: false, values: { x: '3' } })
  })

  it('of a run in the middle are those of before it', async () => {
    await server.run('dale', 'before = "kept"')
    await sleep()
    const headers = { accept: 'application/x-ndjson' }
    const started = await server.fetch(`${dale}/run`, {
      json: { code: 'import time; time.sleep(3600)' },
      headers,
    })
    const reader = started.body?.getReader()
    const { runId } = JSON.parse(new TextDecoder().decode((await reader?.read())?.value).split('\n')[0] ?? '')
    await reader?.cancel()
    await sleep()
    const { contexts } = await server.ok(`${dale}/variables`)
    expect(contexts[0]).toMatchObject({ name: 'default', state: 'busy' })
    expect(await variables()).toMatchObject({ values: { before: "'kept'" } })
    await server.ok(`${dale}/runs/${runId}/interrupt`, { json: {} })
  })

  it('one alone is opened with its rows; what does not exist is not found', async () => {
    await server.run('dale', 'rows = [3, 1, 2]')
    const read = (query: string) => server.call(`${dale}/contexts/default/variables/rows?${query}`)
    const { body } = await read('sort=0&descending=true&limit=2&filter.0=%3C3')
    expect(body.table).toMatchObject({
      rowCount: 3,
      matchCount: 2,
      rows: [
        { label: '2', cells: ['2', 'int'] },
        { label: '1', cells: ['1', 'int'] },
      ],
    })
    expect((await read('limit=500&columns=100')).body.error).toMatchObject({ code: 'invalid_argument' })
    expect((await server.call(`${dale}/contexts/default/variables/none`)).status).toBe(404)
    expect((await server.call(`${dale}/contexts/none/variables/x`)).status).toBe(404)
  })
})

const HOSTILE = `
import os, shutil
os.makedirs("/root/tree/sub", exist_ok=True)
open("/root/tree/b.txt", "w").write("bee" * 10)
open("/root/tree/sub/a.txt", "w").write("ay")
for name, target in {"passwd": "/etc/passwd", "up": "../../../../../../../etc/hostname", "proc": "/proc/1/root/etc/passwd",
                     "loop": "loop", "dir": "/root/tree/sub", "dev": "/dev/kmsg"}.items():
    os.symlink(target, f"/root/tree/{name}")
os.mkfifo("/root/tree/pipe")
open("/root/tree/secret", "w").write("mine"); os.chown("/root/tree/secret", 1777, 1777); os.chmod("/root/tree/secret", 0o600)
open("/etc/passwd", "a").write("inside:x:1777:1777::/home/inside:/bin/sh\\n")
os.makedirs("/root/opaque"); open("/root/opaque/old", "w").write("old")
open("/root/gone", "w").write("gone")
`
const LATER = `
shutil.rmtree("/root/opaque"); os.makedirs("/root/opaque"); open("/root/opaque/new", "w").write("new")
os.remove("/root/gone"); os.rename("/root/tree/sub", "/root/tree/moved")
`

describe('files of a sleeping sandbox', () => {
  const files = `${dale}/files`
  const read = async (path: string, headers = {}) => {
    const answer = await server.fetch(`${files}?wake=false&path=${encodeURIComponent(path)}`, { headers })
    return { status: answer.status, text: await answer.text() }
  }
  const list = async (path: string, more = '') =>
    (await server.ok(`${files}/list?wake=false&path=${encodeURIComponent(path)}${more}`)).items
  const names = async (path: string) => (await list(path)).map(({ name }: { name: string }) => name)

  beforeAll(async () => {
    await server.run('dale', HOSTILE)
    await sleep()
    await server.run('dale', LATER)
    await sleep()
  })

  it('are read from its snapshot, and it stays asleep', async () => {
    expect(await names('/root/tree')).toEqual(
      ['b.txt', 'dev', 'dir', 'loop', 'moved', 'passwd', 'pipe', 'proc', 'secret', 'up'].sort(),
    )
    expect(await read('tree/b.txt')).toEqual({ status: 200, text: 'bee'.repeat(10) })
    expect(await read('/root/tree/b.txt', { range: 'bytes=3-5' })).toEqual({ status: 206, text: 'bee' })
    const stat = await server.ok(`${files}/stat?wake=false&path=/root/tree/secret`)
    expect(stat).toMatchObject({ type: 'file', sizeBytes: 4, mode: '0600', uid: 1777, user: 'inside' })
    expect(await read('/root/tree/secret')).toMatchObject({ text: 'mine' })
    const deep = await list('/root/tree', '&depth=2')
    expect(deep.map(({ path }: { path: string }) => path)).toContain('/root/tree/moved/a.txt')
    expect(await stateOf()).toBe('standby')
  })

  it('deleted, replaced and renamed ones look as they do inside', async () => {
    expect(await names('/root/opaque')).toEqual(['new'])
    expect((await read('/root/gone')).status).toBe(404)
    expect(await names('/root/tree/moved')).toEqual(['a.txt'])
    expect((await read('/root/tree/dir/a.txt')).status).toBe(404)
    expect(await read('/root/tree/moved/a.txt')).toMatchObject({ text: 'ay' })
  })

  it('lead nowhere but into the snapshot, and nothing special is opened', async () => {
    expect((await read('/root/tree/passwd')).text).toContain('inside:x:1777')
    const hostname = await read('/root/tree/up')
    expect([200, 404]).toContain(hostname.status)
    expect(hostname.text).not.toBe((await import('node:os')).hostname())
    expect((await read('/root/tree/proc')).status).toBe(404)
    expect((await read('/root/tree/loop')).status).toBe(400)
    expect((await read('/root/tree/pipe')).status).toBe(409)
    expect((await read('/root/tree/dev')).status).toBe(404)
    expect((await read('/root/tree')).status).toBe(409)
    expect((await read('/../../../../etc/passwd')).text).toContain('inside:x:1777')
    const link = await server.ok(`${files}/stat?wake=false&follow=false&path=/root/tree/proc`)
    expect(link).toMatchObject({ type: 'symlink', target: '/proc/1/root/etc/passwd' })
    expect(await stateOf()).toBe('standby')
  })

  it('of an awake sandbox are read inside', async () => {
    await server.run('dale', 'open("/root/tree/b.txt", "w").write("awake")')
    expect(await read('/root/tree/b.txt')).toEqual({ status: 200, text: 'awake' })
    expect(await names('/root/tree')).toContain('b.txt')
  })
})
