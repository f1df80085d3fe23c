import { readFileSync } from 'node:fs'
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

const ways = {
  stdio: () => McpClient.overStdio(server),
  'streamable HTTP': () => McpClient.overHttp(server),
}

describe.each(Object.entries(ways))('over %s', (_way, connect) => {
  let mcp: McpClient
  beforeAll(async () => {
    mcp = await connect()
  })
  afterAll(async () => {
    await mcp?.end()
  })

  test('every tool has a description, an input schema and an output schema', async () => {
    const { tools } = await mcp.client.listTools()
    expect(tools.map(({ name }) => name)).toContain('run_python')
    for (const { name, title, description, inputSchema, outputSchema, annotations } of tools) {
      expect(title, name).toBeTruthy()
      expect(description?.length, name).toBeGreaterThan(60)
      expect(inputSchema.additionalProperties, name).toBe(false)
      expect(outputSchema?.type, name).toBe('object')
      expect(annotations?.readOnlyHint, name).toBeTypeOf('boolean')
      for (const [field, schema] of Object.entries(inputSchema.properties ?? {})) {
        if (field !== 'content') expect((schema as { description?: string }).description, field).toBeTruthy()
      }
    }
    expect(mcp.client.getInstructions()).toContain('never forget')
    // Sandboxes are created with a network.
    const { network } = await server.ok('/v1/sandboxes', { json: { name: 'as-created', getOrCreate: true } })
    expect(network.mode).toBe('public')
    expect(mcp.client.getInstructions()).toMatch(/reach the internet/)
    expect(mcp.client.getServerVersion()?.name).toBe('dormouse')
  })

  test('variables stay from call to call, and the last value is returned', async () => {
    expect(await mcp.text('run_python', { code: 'x = 40' })).toBe('[no output]')
    const answer = await mcp.call('run_python', { code: 'print("hello")\nx + 2' })
    expect(textOf(answer)).toBe('hello\n42')
    expect(answer.structuredContent).toMatchObject({ stdout: 'hello\n', exitCode: 0, value: '42', images: 0 })
    expect(answer.isError).toBeUndefined()
  })

  test('a kernel that ends is an error, and the next call says that the variables are lost', async () => {
    const died = await mcp.call('run_python', { code: 'lost = 1; import os; os._exit(0)' })
    expect(died).toMatchObject({ isError: true, structuredContent: { exitCode: 1 } })
    expect(textOf(died)).toMatch(/KernelDied: the kernel exited with code 0; .*its variables are gone/)
    const next = await mcp.call('run_python', { code: '"lost" in globals()' })
    expect(textOf(next)).toMatch(
      /^\[The earlier variables are lost: the kernel exited with code 0.*\]\nFalse$/,
    )
    expect(next.structuredContent).toMatchObject({ contextRestarted: expect.stringMatching(/code 0/) })
  })

  test('a plot comes as an image', async () => {
    const code = 'import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()'
    const { content, structuredContent } = await mcp.call('run_python', { code })
    const image = content.find(({ type }) => type === 'image') as { data: string; mimeType: string }
    expect(image.mimeType).toBe('image/png')
    expect(Buffer.from(image.data, 'base64').subarray(1, 4).toString()).toBe('PNG')
    expect(structuredContent.images).toBe(1)
  })

  test('data that is not an image is not returned as one', async () => {
    const code =
      'from IPython.display import display\ndisplay({"image/png": "bm9uZQ==", "text/plain": "none"}, raw=True)'
    const shown = await mcp.call('run_python', { code })
    expect(shown.content).toEqual([{ type: 'text', text: 'none' }])
    await mcp.call('write_file', { path: 'fake.png', content: 'not a picture' })
    const { content } = await mcp.call('read_file', { path: 'fake.png' })
    expect(content).toEqual([{ type: 'text', text: 'not a picture' }])
  })

  test('an error of the server names the input of the tool', async () => {
    const refused = await mcp.call('snapshot_sandbox', { name: 'a b' })
    expect(textOf(refused)).toMatch(
      /^invalid_argument: name: must be .*\nHint: Correct the named input and call again\.$/,
    )
  })

  test('an exception is an error with its traceback, and the variables stay', async () => {
    const failed = await mcp.call('run_python', { code: 'kept = 7\n1 / 0' })
    expect(failed.isError).toBe(true)
    // Only once, although stderr has it too.
    expect(textOf(failed).match(/^ZeroDivisionError/gm)).toHaveLength(1)
    expect(failed.structuredContent.error).toMatchObject({ name: 'ZeroDivisionError' })
    expect(await mcp.text('run_python', { code: 'kept' })).toBe('7')
  })

  test('a shell command has an exit code, and takes a working directory', async () => {
    const failed = await mcp.call('run_shell', { command: 'pwd; echo oops >&2; exit 3', cwd: '/tmp' })
    expect(failed.isError).toBeUndefined()
    expect(failed.structuredContent).toMatchObject({ stdout: '/tmp\n', stderr: 'oops\n', exitCode: 3 })
    expect(textOf(failed)).toBe('/tmp\n[stderr]\noops\n[exit code 3]')
    expect(await mcp.text('run_shell', { command: 'tr a-z A-Z', stdin: 'loud' })).toBe('LOUD')
    const left = await mcp.call('run_shell', { command: 'nohup sleep 100 > /dev/null 2>&1 &' })
    expect(left.structuredContent.exitCode).toBe(0)
  })

  test('long output keeps its beginning and its end', async () => {
    const text = await mcp.text('run_python', { code: 'print("a" * 50_000 + "z" * 50_000)' })
    expect(text.length).toBeLessThan(21_000)
    expect(text).toMatch(/^a+\n… 80001 bytes left out.*\nz+$/s)
  })

  test('files: text, images, binary, parts, listing', async () => {
    const written = await mcp.call('write_file', { path: 'notes/today.md', content: 'räksmörgås' })
    expect(written.structuredContent).toMatchObject({ path: '/root/notes/today.md', sizeBytes: 13 })
    await mcp.call('write_file', { path: 'notes/today.md', content: '!', append: true })
    expect(await mcp.text('read_file', { path: '/root/notes/today.md' })).toBe('räksmörgås!')
    const part = await mcp.call('read_file', { path: 'notes/today.md', maxBytes: 2 })
    expect(part.structuredContent).toMatchObject({ content: 'r', sizeBytes: 14, nextOffsetBytes: 1 })
    const rest = await mcp.call('read_file', { path: 'notes/today.md', offsetBytes: 1 })
    expect(rest.structuredContent).toMatchObject({ encoding: 'text', content: 'äksmörgås!' })
    expect(rest.structuredContent.nextOffsetBytes).toBeUndefined()
    const bytes = Buffer.from([0, 255, 1]).toString('base64')
    await mcp.call('write_file', { path: 'blob', content: bytes, encoding: 'base64' })
    expect((await mcp.call('read_file', { path: 'blob' })).structuredContent).toMatchObject({
      encoding: 'base64',
      content: bytes,
    })
    await mcp.call('run_python', { code: 'plt.plot([1]); plt.savefig("/root/plot.png"); plt.close()' })
    const { content } = await mcp.call('read_file', { path: 'plot.png' })
    expect(content[0]).toMatchObject({ type: 'image', mimeType: 'image/png' })
    const listed = await mcp.call('list_files', { path: '/root/notes' })
    expect(listed.structuredContent).toMatchObject({
      entries: [{ path: '/root/notes/today.md', type: 'file', sizeBytes: 14 }],
      leftOut: 0,
    })
  })

  test('failures are tool errors with a code and a hint', async () => {
    const missing = await mcp.call('read_file', { path: '/nowhere' })
    expect(missing.isError).toBe(true)
    expect(textOf(missing)).toMatch(/^not_found: .*\nHint: /)
    expect(missing._meta?.[ERROR_META]).toMatchObject({ code: 'not_found', hint: expect.any(String) })
    const stranger = await mcp.call('run_python', { code: '1', sandbox: 'nobody' })
    expect(stranger._meta?.[ERROR_META]).toMatchObject({ code: 'not_found' })
    const wrong = await mcp.call('run_python', { cod: '1' })
    expect(wrong.isError).toBe(true)
    expect(textOf(wrong)).toMatch(/^invalid_argument: .*code.*cod/s)
    await expect(mcp.call('no_such_tool')).rejects.toThrow('Unknown tool')
  })

  test('a long run sends progress', async () => {
    const seen: { progress: number; message?: string | undefined }[] = []
    const code = 'import time\nfor i in range(4):\n    print("step", i, flush=True)\n    time.sleep(0.5)'
    const onprogress = (progress: (typeof seen)[number]) => void seen.push(progress)
    const { structuredContent } = await mcp.call('run_python', { code }, { onprogress })
    expect(structuredContent.stdout).toContain('step 3')
    expect(seen.map(({ message }) => message)).toContain('step 2')
    expect(seen.map(({ progress }) => progress)).toEqual(
      [...new Set(seen.map(({ progress }) => progress))].sort((a, b) => a - b),
    )
  })

  test('cancelling a call interrupts the code, and the variables stay', async () => {
    const stop = new AbortController()
    const code =
      'import time\ncount = 0\nprint("begun", flush=True)\nwhile True:\n    count += 1\n    time.sleep(0.01)'
    const call = mcp.call(
      'run_python',
      { code },
      { signal: stop.signal, onprogress: ({ message }) => message === 'begun' && stop.abort() },
    )
    await expect(call).rejects.toThrow()
    // It waits behind the other run, so it returns only after that was interrupted.
    const after = await mcp.call('run_python', { code: 'count > 0' })
    expect(after.structuredContent.value).toBe('True')
  })

  test('cancelling a shell command kills it', async () => {
    const stop = new AbortController()
    const call = mcp.call(
      'run_shell',
      { command: 'echo begun; exec sleep 4321' },
      { signal: stop.signal, onprogress: ({ message }) => message === 'begun' && stop.abort() },
    )
    await expect(call).rejects.toThrow()
    const count =
      'for i in $(seq 100); do n=$(pgrep -fc "^sleep 4321"); [ "$n" = 0 ] && break; sleep 0.1; done; echo $n'
    expect(await mcp.text('run_shell', { command: count })).toBe('0')
  })

  test('a time limit ends a run', async () => {
    const late = await mcp.call('run_python', { code: 'while True: pass', timeoutMs: 300 })
    expect(late.structuredContent.timedOut).toBe(true)
    expect(late.isError).toBe(true)
  })

  test('forks start with the state of their parent, and change only their own', async () => {
    await mcp.call('run_python', { code: 'base = [1]' })
    const forked = await mcp.call('fork_sandbox', { count: 2 })
    const [one, two] = forked.structuredContent.children.map(({ id }: { id: string }) => id)
    expect(await mcp.text('run_python', { code: 'base.append(2); base', sandbox: one })).toBe('[1, 2]')
    expect(await mcp.text('run_python', { code: 'base', sandbox: two })).toBe('[1]')
    expect(await mcp.text('run_python', { code: 'base' })).toBe('[1]')
    for (const sandbox of [one, two]) {
      const gone = await mcp.call('delete_sandbox', { sandbox })
      expect(gone.structuredContent).toMatchObject({ id: sandbox, deleted: true })
    }
  })

  test('the parent of a fork continues as the fork', async () => {
    await mcp.call('run_python', { code: 'way = 0' })
    const forked = await mcp.call('fork_sandbox')
    const [{ id }] = forked.structuredContent.children
    await mcp.call('run_python', { code: 'way = 1', sandbox: id })
    const parent = await mcp.call('promote_sandbox', { sandbox: id })
    expect(parent.structuredContent.id).toBe(forked.structuredContent.parent)
    expect(await mcp.text('run_python', { code: 'way' })).toBe('1')
  })

  test('a rollback brings back memory and files', async () => {
    await mcp.call('run_python', { code: 'precious = 1; open("/root/f", "w").write("old")' })
    const saved = await mcp.call('snapshot_sandbox', { name: 'before' })
    expect(saved.structuredContent).toMatchObject({ name: 'before', kind: 'full' })
    await mcp.call('run_python', { code: 'del precious; open("/root/f", "w").write("new")' })
    const listed = await mcp.call('list_snapshots')
    expect(listed.structuredContent.snapshots.map(({ name }: { name?: string }) => name)).toContain('before')
    await mcp.call('rollback_sandbox', { snapshot: 'before' })
    expect(await mcp.text('run_python', { code: 'precious, open("/root/f").read()' })).toBe("(1, 'old')")
    const wrong = await mcp.call('rollback_sandbox', { snapshot: 'never' })
    expect(wrong._meta?.[ERROR_META]).toMatchObject({ code: 'not_found' })
  })

  test('a sleeping sandbox wakes for a call', async () => {
    await mcp.call('run_python', { code: 'dream = object(); where = id(dream)' })
    const asleep = await mcp.call('standby_sandbox', { tier: 'stored' })
    expect(asleep.structuredContent).toMatchObject({ state: 'standby', tier: 'stored' })
    expect(await mcp.text('run_python', { code: 'id(dream) == where' })).toBe('True')
    await mcp.call('standby_sandbox')
    expect((await mcp.call('resume_sandbox')).structuredContent).toMatchObject({ state: 'running' })
  })

  test('other sandboxes are made, listed and used by name', async () => {
    const name = `other-${crypto.randomUUID().slice(0, 8)}`
    const made = await mcp.call('create_sandbox', { name, memoryMb: 512, wakeOnTimer: true })
    expect(made.structuredContent).toMatchObject({ name, state: 'running' })
    const again = await mcp.call('create_sandbox', { name })
    expect(again.structuredContent.id).toBe(made.structuredContent.id)
    await mcp.call('run_python', { code: 'here = 1', sandbox: name })
    const elsewhere = await mcp.call('run_python', { code: 'here' })
    expect(elsewhere.structuredContent.error.name).toBe('NameError')
    const { structuredContent } = await mcp.call('list_sandboxes', { state: 'running' })
    expect(structuredContent.sandboxes.map(({ id }: { id: string }) => id)).toContain(
      made.structuredContent.id,
    )
    await mcp.call('delete_sandbox', { sandbox: name })
  })

  test('a sandbox without a network resolves no name', async () => {
    const { structuredContent } = await mcp.call('create_sandbox', { network: 'none' })
    const sandbox = structuredContent.id
    const asked = await mcp.call('run_python', {
      code: 'import socket; socket.getaddrinfo("example.com", 80)',
      sandbox,
    })
    expect(asked.structuredContent.error.name).toBe('gaierror')
    await mcp.call('delete_sandbox', { sandbox })
    const listed = await mcp.call('create_sandbox', { network: ['example.com:443'] })
    expect(listed.structuredContent).toMatchObject({ state: 'running' })
    await mcp.call('delete_sandbox', { sandbox: listed.structuredContent.id })
  })

  test('a conversation whose sandbox was deleted gets a new one and a note', async () => {
    const { structuredContent } = await mcp.call('list_sandboxes')
    await mcp.call('delete_sandbox', { sandbox: structuredContent.conversationSandbox })
    const fresh = await mcp.call('run_python', { code: '1' })
    expect(fresh.structuredContent.note).toContain('new one')
  })
})

test('the documentation lists every tool with its inputs', async () => {
  await using mcp = await McpClient.overHttp(server)
  const text = readFileSync(new URL('../../docs/mcp.md', import.meta.url), 'utf8')
  const { tools } = await mcp.client.listTools()
  for (const { name, inputSchema } of tools) {
    const row = text.split('\n').find((line) => line.startsWith(`| \`${name}\``))
    expect(row, name).toBeDefined()
    for (const field of Object.keys(inputSchema.properties ?? {})) expect(row, name).toContain(`\`${field}`)
  }
  const documented = [...text.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name)
  expect(documented.sort()).toEqual(tools.map(({ name }) => name).sort())
})
