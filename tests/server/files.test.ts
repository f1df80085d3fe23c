import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { heldBytes } from '../held-memory.ts'
import { lines, useServer } from './harness.ts'

const MIB = 1024 ** 2
const transfer = fileURLToPath(new URL('transfer.mjs', import.meta.url))
const NDJSON = { accept: 'application/x-ndjson' }
const at = (path: string, more = '') => `/files?path=${encodeURIComponent(path)}${more}`

describe('files over HTTP', () => {
  const server = useServer()
  const put = (path: string, raw: BodyInit, more = '') => server.json(at(path, more), { method: 'PUT', raw })
  const get = async (path: string, headers: Record<string, string> = {}) => server.call(at(path), { headers })
  const codeOf = async (response: Response) => {
    const body = (await response.json()) as { error: { code: string } }
    return `${response.status} ${body.error.code}`
  }

  test('what is put is got again, byte for byte, and seen inside', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
    expect(await put('/tmp/bytes', bytes)).toMatchObject({
      path: '/tmp/bytes',
      type: 'file',
      sizeBytes: 256,
      mode: '0644',
      user: 'root',
    })
    const response = await get('/tmp/bytes')
    expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': '256',
      'accept-ranges': 'bytes',
      'x-content-type-options': 'nosniff',
      etag: expect.stringMatching(/^W\//),
    })
    expect(await server.bash('wc -c < /tmp/bytes')).toBe('256\n')
  })

  test('an empty file, a JSON body and a file of /proc are bytes like any other', async () => {
    await put('/tmp/empty', '')
    const empty = await get('/tmp/empty')
    expect([await empty.text(), empty.headers.get('content-length')]).toEqual(['', '0'])
    await server.json(at('/tmp/data.json'), { method: 'PUT', body: { a: 1 } })
    expect(await (await get('/tmp/data.json')).text()).toBe('{"a":1}')
    expect(await (await get('/proc/self/status')).text()).toContain('Name:')
  })

  test('mode, parents, user and append do what they say', async () => {
    expect(await put('/tmp/made/deep/f', 'x', '&mode=0600&parents=true')).toMatchObject({ mode: '0600' })
    await put('/tmp/made/deep/f', 'y', '&append=true')
    expect(await server.bash('cat /tmp/made/deep/f')).toBe('xy')
    expect(await put('mine', 'z', '&user=user')).toMatchObject({ path: '/home/user/mine', user: 'user' })
    expect(await codeOf(await server.call(at('/tmp/none/f'), { method: 'PUT', raw: 'x' }))).toBe(
      '404 not_found',
    )
    expect(await codeOf(await server.call(at('/etc/x', '&user=user'), { method: 'PUT', raw: 'x' }))).toBe(
      '403 permission_denied',
    )
  })

  test('ranges give parts, with where they are, or 416', async () => {
    await put('/tmp/part', '0123456789')
    const range = async (value: string) => {
      const response = await get('/tmp/part', { range: value })
      return [response.status, response.headers.get('content-range'), await response.text()]
    }
    expect(await range('bytes=2-4')).toEqual([206, 'bytes 2-4/10', '234'])
    expect(await range('bytes=7-')).toEqual([206, 'bytes 7-9/10', '789'])
    expect(await range('bytes=-2')).toEqual([206, 'bytes 8-9/10', '89'])
    expect(await range('bytes=8-100')).toEqual([206, 'bytes 8-9/10', '89'])
    expect(await range('bytes=0-1,4-5')).toEqual([200, null, '0123456789'])
    expect(await range('nonsense')).toEqual([200, null, '0123456789'])
    const beyond = await get('/tmp/part', { range: 'bytes=10-' })
    expect(beyond.headers.get('content-range')).toBe('bytes */10')
    expect(await codeOf(beyond)).toBe('416 range_not_satisfiable')
  })

  test('conditions: If-None-Match spares the bytes, If-Range the part of another file', async () => {
    await put('/tmp/cached', 'abcdef')
    const first = await get('/tmp/cached')
    const etag = first.headers.get('etag') ?? ''
    const modified = first.headers.get('last-modified') ?? ''
    expect((await get('/tmp/cached', { 'if-none-match': etag })).status).toBe(304)
    expect((await get('/tmp/cached', { 'if-none-match': 'W/"1-1"' })).status).toBe(200)
    expect((await get('/tmp/cached', { range: 'bytes=0-1', 'if-range': modified })).status).toBe(206)
    const other = await get('/tmp/cached', {
      range: 'bytes=0-1',
      'if-range': 'Thu, 01 Jan 1970 00:00:00 GMT',
    })
    expect([other.status, await other.text()]).toEqual([200, 'abcdef'])
  })

  test('HEAD tells length and time, and refuses what is no file', async () => {
    await put('/tmp/headed', 'abc')
    const head = await server.call(at('/tmp/headed'), { method: 'HEAD' })
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '3', ''])
    expect((await server.call(at('/tmp'), { method: 'HEAD' })).status).toBe(409)
    expect((await server.call(at('/tmp/none'), { method: 'HEAD' })).status).toBe(404)
  })

  test('80 MB go in and out unchanged, and the server does not hold them', async () => {
    const before = heldBytes()
    let peak = 0
    let isOver = false
    const gauge = async () => {
      while (!isOver) {
        const began = performance.now()
        peak = Math.max(peak, heldBytes())
        // Most of the time is for what is measured.
        await sleep(50 + 9 * (performance.now() - began))
      }
    }
    const gauging = gauge()
    const url = `${server.url}/v1/sandboxes/${server.sandbox.id}${at('/tmp/huge')}`
    const transferring = promisify(execFile)(process.execPath, [transfer, url, server.key])
    const { stdout } = await transferring.finally(() => {
      isOver = true
      return gauging
    })
    expect(JSON.parse(stdout)).toEqual({ sizeBytes: 80 * MIB, contentLength: 80 * MIB, isSame: true })
    expect(await server.bash('stat -c %s /tmp/huge; rm /tmp/huge')).toBe(`${80 * MIB}\n`)
    expect(peak).toBeGreaterThan(0)
    expect(peak - before).toBeLessThan(40 * MIB)
  })

  test('a reader that does not read holds the file back, not in memory', async () => {
    await server.bash('truncate -s 300M /tmp/wide')
    const before = heldBytes()
    const response = await get('/tmp/wide')
    const reader = response.body?.getReader()
    await reader?.read()
    await sleep(1_500)
    expect(heldBytes() - before).toBeLessThan(40 * MIB)
    await reader?.cancel()
    await server.bash('rm /tmp/wide')
    expect(await (await get('/etc/hostname')).text()).not.toBe('')
  })

  test.each([
    ['Content-Length that is not reached', 'Content-Length: 5000000\r\n', 'x'.repeat(3_000_000)],
    ['chunked', 'Transfer-Encoding: chunked\r\n', `2dc6c0\r\n${'x'.repeat(3_000_000)}\r\n`],
    ['small', 'Content-Length: 50\r\n', 'x'.repeat(10)],
  ])(
    'an upload that is dropped (%s) leaves the old file and nothing beside it',
    async (_how, header, body) => {
      await put('/tmp/dropped/file', 'old', '&parents=true')
      const { hostname, port } = new URL(server.url)
      const socket = connect(Number(port), hostname)
      const path = `/v1/sandboxes/${server.sandbox.id}${at('/tmp/dropped/file')}`
      socket.write(
        `PUT ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${server.key}\r\n${header}\r\n${body}`,
      )
      await sleep(400)
      socket.destroy()
      await expect
        .poll(() => server.bash('ls -A /tmp/dropped; cat /tmp/dropped/file'), { timeout: 30_000 })
        .toBe('file\nold')
    },
  )

  test('an upload that is refused in the middle is answered, and other connections continue', async () => {
    async function* pieces() {
      for (let n = 0; n < 40; n += 1) yield Buffer.alloc(MIB)
    }
    const refused = await server.call(at('/etc/none/f'), {
      method: 'PUT',
      raw: pieces() as unknown as BodyInit,
    })
    expect(await codeOf(refused)).toBe('404 not_found')
    expect((await get('/etc/hostname')).status).toBe(200)
  })

  test('hostile links stay inside: they lead to files of the sandbox or nowhere', async () => {
    await server.bash(
      'ln -sf /etc/shadow /tmp/l1; ln -sf ../../../../../../etc/hostname /tmp/l2; ln -sfn /proc/1/root /tmp/l3; ' +
        'ln -sf l5 /tmp/l4; ln -sf l4 /tmp/l5; echo secret > /root/secret; chmod 600 /root/secret; ' +
        'ln -sf /root/secret /tmp/l6; mkfifo -m 666 /tmp/fifo',
    )
    const inside = await server.bash('cat /etc/hostname')
    expect(await (await get('/tmp/l2')).text()).toBe(inside)
    expect(await codeOf(await server.call(at('/tmp/l1', '&user=user')))).toBe('403 permission_denied')
    expect(await codeOf(await server.call(at('/tmp/l6', '&user=user')))).toBe('403 permission_denied')
    expect((await server.call(at('/tmp/l6', '&user=user'), { method: 'PUT', raw: 'x' })).status).toBe(403)
    expect(await codeOf(await get('/tmp/l4'))).toBe('400 invalid_argument')
    expect(await codeOf(await get('/tmp/fifo'))).toBe('409 not_a_file')
    expect(await codeOf(await get('/tmp'))).toBe('409 not_a_file')
    const through = await get(`/tmp/l3${'/..'.repeat(8)}/etc/hostname`)
    expect(through.status === 200 ? await through.text() : inside).toBe(inside)
    expect(await server.bash('cat /root/secret')).toBe('secret\n')
  })

  test.each([
    ['no path', '/files', 'path'],
    ['an empty one', '/files?path=', 'path'],
    ['NUL', '/files?path=/tmp/a%00b', 'path'],
    ['bytes that are not UTF-8', '/files?path=/tmp/%ff%fe', 'query'],
    ['a broken escape', '/files?path=/tmp/%zz', 'query'],
    ['too long', `/files?path=/${'x'.repeat(4097)}`, 'path'],
    ['two of them', '/files?path=/a&path=/b', 'path'],
    ['an unknown field', '/files?path=/tmp&colour=red', 'colour'],
    ['a bad user', '/files?path=/tmp&user=a/b', 'user'],
  ])('a path that is %s is refused by name', async (_what, path, named) => {
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const response = await server.call(path, { method, ...(method === 'PUT' ? { raw: 'x' } : {}) })
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      expect([response.status, error.code]).toEqual([400, 'invalid_argument'])
      expect(error.message).toContain(named)
    }
  })

  test('stat, mkdir, move, list and delete', async () => {
    await server.json('/files/mkdir', { method: 'POST', body: { path: '/tmp/tree/a', mode: '0750' } })
    await put('/tmp/tree/a/f', '123')
    await server.json('/files/move', { method: 'POST', body: { from: '/tmp/tree/a/f', to: '/tmp/tree/g' } })
    await server.bash('ln -s g /tmp/tree/link; touch -d "9999-12-31 23:59:59 -1200" /tmp/tree/g')
    const stat = (path: string, more = '') => server.json(`/files/stat?path=${path}${more}`)
    expect(await stat('/tmp/tree/a')).toMatchObject({ type: 'directory', mode: '0750' })
    expect(await stat('/tmp/tree/link')).toMatchObject({ type: 'file', sizeBytes: 3 })
    expect(await stat('/tmp/tree/link', '&follow=false')).toMatchObject({ type: 'symlink', target: 'g' })
    const { items } = await server.json<{ items: { name: string }[] }>('/files/list?path=/tmp/tree&depth=2')
    expect(items.map(({ name }) => name)).toEqual(['a', 'g', 'link'])
    const taken = { from: '/tmp/tree/g', to: '/tmp/tree/a', overwrite: false }
    expect(await codeOf(await server.call('/files/move', { method: 'POST', body: taken }))).toBe(
      '409 already_exists',
    )
    expect(await codeOf(await server.call(at('/tmp/tree'), { method: 'DELETE' }))).toBe(
      '409 directory_not_empty',
    )
    await server.json(at('/tmp/tree', '&recursive=true'), { method: 'DELETE', status: 204 })
    expect(await codeOf(await server.call('/files/stat?path=/tmp/tree'))).toBe('404 not_found')
  })

  test('a long list is an error as JSON and whole as NDJSON', async () => {
    await server.bash('mkdir /tmp/many; cd /tmp/many; seq 1 12000 | xargs touch')
    expect(await codeOf(await server.call('/files/list?path=/tmp/many'))).toBe('413 too_large')
    const response = await server.call('/files/list?path=/tmp/many', { headers: NDJSON })
    let files = 0
    for await (const entry of lines(response)) if (entry['type'] === 'file') files += 1
    expect(files).toBe(12000)
    const none = await server.call('/files/list?path=/tmp/none', { headers: NDJSON })
    expect(await codeOf(none)).toBe('404 not_found')
  })

  test('a watch streams changes, keeps the sandbox awake, and continues across a standby', async () => {
    await server.bash('rm -rf /tmp/seen; mkdir /tmp/seen')
    const gone = new AbortController()
    const response = await server.call('/files/watch?path=/tmp/seen&recursive=true', { signal: gone.signal })
    const changes = lines<{ type: string; path: string }>(response)
    const next = async () => (await changes.next()).value
    expect(await next()).toEqual({ type: 'ready', path: '/tmp/seen' })
    const why = await server.sandbox.why()
    expect(why.work.map(({ what }) => what)).toContain('watching /tmp/seen')
    await put('/tmp/seen/a', 'x')
    expect(await next()).toEqual({ type: 'created', path: '/tmp/seen/a' })
    await server.sandbox.standby({ tier: 'stored', cause: 'asked' })
    await put('/tmp/seen/b', 'x')
    expect(await next()).toEqual({ type: 'overflow', path: '/tmp/seen' })
    // Written before the watch began again, or after: from here on nothing is missed.
    await put('/tmp/seen/c', 'x')
    let seen = await next()
    while (seen?.path !== '/tmp/seen/c') seen = await next()
    expect(seen).toEqual({ type: 'created', path: '/tmp/seen/c' })
    gone.abort()
    expect(await codeOf(await server.call('/files/watch?path=/tmp/none'))).toBe('404 not_found')
  })

  test('a download continues across a standby', async () => {
    await server.bash('head -c 40M /dev/urandom > /tmp/slow')
    const expected = await server.bash('sha256sum < /tmp/slow')
    const response = await get('/tmp/slow')
    const reader = response.body!.getReader()
    const hash = createHash('sha256').update((await reader.read()).value!)
    await server.sandbox.standby({ tier: 'stored', cause: 'asked' })
    await server.sandbox.resume('resume')
    for (let part = await reader.read(); !part.done; part = await reader.read()) hash.update(part.value)
    expect(expected).toContain(hash.digest('hex'))
  })

  test('a file that is cut short while it is read ends the connection, not quietly', async () => {
    await server.bash('head -c 60M /dev/zero > /tmp/cut')
    const response = await get('/tmp/cut')
    const reader = response.body!.getReader()
    await reader.read()
    await server.bash('truncate -s 1 /tmp/cut')
    const rest = async () => {
      for (let part = await reader.read(); !part.done; part = await reader.read());
    }
    await expect(rest()).rejects.toThrow()
  })
})
