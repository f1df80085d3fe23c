import type { FileChange, Sandbox } from 'dormouse'
import { beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let sandbox: Sandbox
beforeAll(async () => {
  sandbox = await server.create()
})

describe('files', () => {
  test('are written and read as text and as bytes', async () => {
    const written = await sandbox.files.write('/root/a/b/grüße.txt', 'Grüße ✓', {
      parents: true,
      mode: '0600',
    })
    expect(written).toMatchObject({ path: '/root/a/b/grüße.txt', type: 'file', mode: '0600' })
    expect(await sandbox.files.read('/root/a/b/grüße.txt')).toBe('Grüße ✓')
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index)
    await sandbox.files.write('bytes', bytes)
    expect(await sandbox.files.readBytes('/root/bytes')).toEqual(bytes)
    await sandbox.files.write('bytes', new Blob([bytes]), { append: true })
    expect((await sandbox.files.stat('bytes')).sizeBytes).toBe(512)
  })

  test('of any size are streamed both ways', async () => {
    const piece = new Uint8Array(1024 ** 2).map((_, index) => index % 251)
    let left = 24
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (left-- > 0) controller.enqueue(piece)
        else controller.close()
      },
    })
    await sandbox.files.write('/tmp/large', stream)
    let length = 0
    let differences = 0
    const reader = sandbox.files.stream('/tmp/large').getReader()
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      for (const [index, byte] of next.value.entries())
        if (byte !== piece[(length + index) % piece.length]) differences += 1
      length += next.value.byteLength
    }
    expect([length, differences]).toEqual([24 * 1024 ** 2, 0])
  })

  test('are listed, moved, found and removed', async () => {
    await sandbox.files.mkdir('/root/dir/inner')
    await sandbox.files.write('/root/dir/one', '1')
    expect((await sandbox.files.list('/root/dir', { depth: 2 })).map(({ name }) => name)).toEqual([
      'inner',
      'one',
    ])
    await sandbox.files.move('/root/dir/one', '/root/dir/inner/two')
    expect(await sandbox.files.exists('/root/dir/one')).toBe(false)
    expect(await sandbox.files.exists('/root/dir/inner/two')).toBe(true)
    expect(await sandbox.files.exists('/root/dir/inner/two/three')).toBe(false)
    await expect(sandbox.files.remove('/root/dir')).rejects.toMatchObject({ code: 'directory_not_empty' })
    await sandbox.files.remove('/root/dir', { recursive: true })
    expect(await sandbox.files.exists('/root/dir')).toBe(false)
    await expect(sandbox.files.read('/root/dir')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('of a sandbox that does not exist throw, also from exists', async () => {
    const gone = await server.create()
    await gone.delete()
    await expect(gone.files.exists('/etc/passwd')).rejects.toMatchObject({ code: 'not_found' })
  })

  test('are watched', async () => {
    await sandbox.files.mkdir('/root/watched')
    const changes: FileChange[] = []
    for await (const change of sandbox.files.watch('/root/watched', { recursive: true })) {
      if (change.type === 'ready') await sandbox.files.write('/root/watched/new', 'x')
      else changes.push(change)
      if (changes.some(({ path }) => path === '/root/watched/new')) break
    }
    expect(changes.at(-1)?.path).toBe('/root/watched/new')
  })

  test('are watched until the signal aborts', async () => {
    const controller = new AbortController()
    const watching = (async () => {
      for await (const { type } of sandbox.files.watch('/root', { signal: controller.signal }))
        if (type === 'ready') controller.abort()
    })()
    await expect(watching).rejects.toMatchObject({ code: 'cancelled' })
  })
})
