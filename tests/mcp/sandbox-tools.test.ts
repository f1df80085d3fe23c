import { randomBytes } from 'node:crypto'
import { ERROR_META } from '@dormouse/mcp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { McpClient, textOf } from './mcp-client.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 0 })
})
afterAll(async () => {
  await server?.cleanUp()
})

const unique = () => randomBytes(4).toString('hex')
const ways = {
  stdio: (name: string) => McpClient.overStdio(server, name),
  'streamable HTTP': (name: string) => McpClient.overHttp(server, { sandbox: name }),
}

describe.each(Object.entries(ways))('over %s', (_way, connect) => {
  const name = `tools-${unique()}`
  let mcp: McpClient
  beforeAll(async () => {
    mcp = await connect(name)
  })
  afterAll(async () => {
    await mcp?.end()
  })

  test('contexts are created, listed, restarted and deleted', async () => {
    const names = ({ contexts }: { contexts: { name: string }[] }) => contexts.map(({ name }) => name)
    const created = await mcp.call('contexts', { action: 'create', name: 'side', cwd: '/tmp' })
    expect(names(created.structuredContent)).toEqual(expect.arrayContaining(['default', 'side']))
    const inside = { context: 'side' }
    expect(await mcp.text('run_python', { code: 'import os; x = 1; os.getcwd()', ...inside })).toBe("'/tmp'")
    for (const context of ['side', 'default']) {
      await mcp.call('run_python', { code: 'x = 1', context })
      await mcp.call('contexts', { action: 'restart', name: context })
      const { structuredContent } = await mcp.call('run_python', { code: 'x', context })
      expect(structuredContent.error.name).toBe('NameError')
    }
    const left = await mcp.call('contexts', { action: 'delete', name: 'side' })
    expect(names(left.structuredContent)).toEqual(['default'])
    expect(names((await mcp.call('contexts', { action: 'list' })).structuredContent)).toEqual(['default'])
    expect(await mcp.text('contexts', { action: 'create' })).toMatch(/^invalid_argument: name: is required/)
  })

  test('volumes are created, cloned, attached and detached', async () => {
    const [volume, copy] = [`data-${unique()}`, `copy-${unique()}`]
    await mcp.call('volumes', { action: 'create', name: volume, sizeMb: 64 })
    const mount = { volume, path: '/data', readOnly: false }
    const attached = await mcp.call('volumes', { action: 'attach', name: volume, path: '/data' })
    expect(attached.structuredContent.mounts).toEqual([mount])
    expect(await mcp.text('run_python', { code: "open('/data/a', 'w').write('x')" })).toBe('1')
    const cloned = await mcp.call('volumes', { action: 'clone', from: volume, name: copy, readOnly: true })
    expect(cloned.structuredContent.volumes[0]).toMatchObject({ clonedFrom: volume, readOnly: true })
    const { structuredContent } = await mcp.call('volumes', { action: 'list' })
    const names = structuredContent.volumes.map(({ name }: { name: string }) => name)
    expect(names).toEqual(expect.arrayContaining([volume, copy]))
    const detached = await mcp.call('volumes', { action: 'detach', name: volume })
    expect(detached.structuredContent.mounts).toEqual([])
    expect(await mcp.text('volumes', { action: 'detach', name: volume })).toMatch(/^not_found: /)
    expect(await mcp.text('volumes', { action: 'clone', name: 'x' })).toMatch(/^invalid_argument: from: /)
  })

  test('checkpoints are switched on and off', async () => {
    const on = await mcp.call('checkpoint_sandbox', { minutes: 5 })
    expect(on.structuredContent).toMatchObject({ everyMinutes: 5 })
    const off = await mcp.call('checkpoint_sandbox', { minutes: 0 })
    expect(off.structuredContent).toMatchObject({ everyMinutes: 0 })
  })

  test('templates are listed', async () => {
    const { structuredContent } = await mcp.call('list_templates')
    expect(structuredContent.templates).toContainEqual(
      expect.objectContaining({ name: 'python', state: 'ready' }),
    )
  })

  test('a server inside gets a link', async () => {
    const command =
      'mkdir -p /srv/web && echo hello > /srv/web/a.txt && python3 -m http.server 8123 -d /srv/web'
    const started = await mcp.call('run_shell', { command, waitMs: 0 })
    const link = await mcp.call('preview_url', { port: 8123, path: '/a.txt', waitMs: 30_000 })
    const { url, expiresAt } = link.structuredContent
    expect(url).toMatch(/\/a\.txt\?/)
    expect(Date.parse(expiresAt)).not.toBeNaN()
    await mcp.call('cancel_run', { run: started.structuredContent.run })
    const closed = await mcp.call('preview_url', { port: 8124, waitMs: 0 })
    expect(closed._meta?.[ERROR_META]).toMatchObject({ code: 'port_closed' })
  })

  test('a snapshot is deleted by its name', async () => {
    const saved = await mcp.call('snapshot_sandbox', { name: 'short-lived' })
    const gone = await mcp.call('delete_snapshot', { snapshot: 'short-lived' })
    expect(gone.structuredContent).toEqual({ id: saved.structuredContent.id, deleted: true })
    const { structuredContent } = await mcp.call('list_snapshots')
    // What a sandbox wakes from stays until it sleeps again, without a name.
    expect(structuredContent.snapshots.map(({ name }: { name?: string }) => name)).not.toContain(
      'short-lived',
    )
    const missing = await mcp.call('delete_snapshot', { snapshot: 'short-lived' })
    expect(missing._meta?.[ERROR_META]).toMatchObject({ code: 'not_found' })
  })

  test('a hold keeps a sandbox awake', async () => {
    await mcp.call('standby_sandbox')
    const held = await mcp.call('hold_sandbox', { minutes: 5, reason: 'a poll' })
    expect(held.structuredContent.sandbox).toBe(name)
    const why = await server.ok(`/v1/sandboxes/${name}/why`)
    expect(why).toMatchObject({ state: 'running' })
    expect(why.work).toContainEqual(expect.objectContaining({ kind: 'hold', what: 'a poll' }))
  })

  test.each([
    ['run_python', { code: '1', timeoutMs: -1 }, 'timeoutMs'],
    ['run_python', { code: '1', waitMs: -1 }, 'waitMs'],
    ['run_shell', { command: '' }, 'command'],
    ['read_file', { path: 'a', maxBytes: 0 }, 'maxBytes'],
    ['read_file', { path: 'a\0b' }, 'path'],
    ['write_file', { path: 'blob', content: 'not base64!', encoding: 'base64' }, 'content'],
    ['write_file', { path: 'blob', content: 'AAA', encoding: 'base64' }, 'content'],
    ['write_file', { path: 'blob', content: 'x', mode: 'rwx' }, 'mode'],
    ['create_sandbox', { memoryMb: 1 }, 'memoryMb'],
    ['create_sandbox', { cpus: -1 }, 'cpus'],
    ['delete_sandbox', { sandbox: '' }, 'sandbox'],
    ['hold_sandbox', { minutes: 0 }, 'minutes'],
    ['preview_url', { port: 70_000 }, 'port'],
    ['list_files', { depth: 0 }, 'depth'],
  ])('%s with %o names the wrong argument', async (tool, given, argument) => {
    const refused = await mcp.call(tool, given)
    expect(refused._meta?.[ERROR_META]).toMatchObject({ code: 'invalid_argument' })
    expect(textOf(refused)).toMatch(new RegExp(`^invalid_argument: ${argument}: `))
  })

  test('base64 may have line breaks', async () => {
    const content = `${Buffer.from('hello').toString('base64').slice(0, 4)}\nbG8=\n`
    await mcp.call('write_file', { path: 'wrapped', content, encoding: 'base64' })
    expect(await mcp.text('read_file', { path: 'wrapped' })).toBe('hello')
  })

  test('a long file or listing says how to get the rest', async () => {
    await mcp.call('run_shell', {
      command: 'mkdir -p many && cd many && seq 600 | xargs touch && yes | head -c 60000 > /root/long',
    })
    const first = await mcp.call('list_files', { path: '/root/many' })
    expect(first.structuredContent).toMatchObject({
      leftOut: 100,
      note: expect.stringContaining('offset 500'),
    })
    const rest = await mcp.call('list_files', { path: '/root/many', offset: 500 })
    expect(rest.structuredContent).toMatchObject({ leftOut: 0 })
    const paths = [first, rest].flatMap(({ structuredContent }) =>
      structuredContent.entries.map(({ path }: { path: string }) => path),
    )
    expect(new Set(paths).size).toBe(600)
    expect(await mcp.text('read_file', { path: 'long' })).toContain('continue with offsetBytes 50000')
  })

  test('files and plots are resources', async () => {
    await mcp.call('write_file', { path: 'räka 1.txt', content: 'shrimp' })
    const code = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()'
    const { structuredContent } = await mcp.call('run_python', { code })
    const { resources } = await mcp.client.listResources()
    const file = resources.find((resource) => resource.name === 'räka 1.txt')
    const plot = resources.find(({ uri }) => uri.includes(structuredContent.run))
    expect(file?.uri).toBe(`dormouse://${name}/root/r%C3%A4ka%201.txt`)
    expect(plot?.mimeType).toBe('image/png')
    const read = await mcp.client.readResource({ uri: file?.uri ?? '' })
    expect(read.contents).toEqual([{ uri: file?.uri, mimeType: 'text/plain', text: 'shrimp' }])
    const [image] = (await mcp.client.readResource({ uri: plot?.uri ?? '' })).contents as { blob: string }[]
    expect(
      Buffer.from(image?.blob ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
    ).toBe('PNG')
    const { resourceTemplates } = await mcp.client.listResourceTemplates()
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContain('dormouse://{sandbox}/{+path}')
    await expect(mcp.client.readResource({ uri: `dormouse://${name}/nowhere` })).rejects.toMatchObject({
      code: -32002,
    })
    await expect(mcp.client.readResource({ uri: 'file:///etc/passwd' })).rejects.toThrow('uri: ')
  })

  test('a failed run shows what the network policy refused during it', async () => {
    const made = await mcp.call('create_sandbox', { network: ['allowed.example:443'] })
    const sandbox = made.structuredContent.id
    const before = 'import socket\ntry: socket.getaddrinfo("earlier.example", 80)\nexcept OSError: pass'
    expect((await mcp.call('run_python', { code: before, sandbox })).structuredContent.denied).toBeUndefined()
    const code = 'import socket; socket.getaddrinfo("refused.example", 80)'
    const failed = await mcp.call('run_python', { code, sandbox })
    expect(failed.structuredContent.denied).toEqual([expect.stringContaining('refused.example')])
    expect(textOf(failed)).toMatch(/The network policy of the sandbox refused: .*refused\.example/)
    const command = 'python3 -c \'import socket; socket.getaddrinfo("other.example", 80)\''
    const shell = await mcp.call('run_shell', { command, sandbox })
    expect(shell.structuredContent.denied).toEqual([expect.stringContaining('other.example')])
    await mcp.call('delete_sandbox', { sandbox })
  })

  test('a failed run shows which names could not be resolved during it', async () => {
    const made = await mcp.call('create_sandbox', { network: 'public' })
    const sandbox = made.structuredContent.id
    const code = 'import socket; socket.getaddrinfo("database.internal", 5432)'
    // Twice: a name that failed before is shown again.
    for (let round = 0; round < 2; round += 1) {
      const failed = await mcp.call('run_python', { code, sandbox })
      expect(failed.structuredContent.failedLookups).toEqual([
        expect.stringMatching(/^database\.internal \(a local name/),
      ])
      expect(textOf(failed)).toMatch(/Names that could not be resolved: database\.internal/)
    }
    const later = await mcp.call('run_python', { code: '1 / 0', sandbox })
    expect(later.structuredContent.failedLookups).toBeUndefined()
    await mcp.call('delete_sandbox', { sandbox })
  })
})

describe('dormouse mcp', () => {
  test('makes its sandbox with the given memory, template and network', async () => {
    const name = `flags-${unique()}`
    const flags = ['--memory', '512MiB', '--template', 'python', '--allow', 'pypi.org:443']
    await using mcp = await McpClient.overStdio(server, name, flags)
    await mcp.call('run_python', { code: '1' })
    const { limits, template, network } = await server.ok(`/v1/sandboxes/${name}`)
    expect(limits.memoryBytes).toBe(512 * 1024 ** 2)
    expect(template).toBe('python')
    expect(network).toMatchObject({ mode: 'allow', allow: ['pypi.org:443'] })
  })
})
