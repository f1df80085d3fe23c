import { describe, expect, test } from 'vitest'
import type { FileChange, Guest } from '../guest.ts'
import { eventually } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

type Options = { recursive?: boolean; user?: string }

export function describeWatch(factory: EngineFactory): void {
  describe('watching files', () => {
    const shared = useSharedBurrow(factory)
    const bash = (code: string) => shared.guest.runs.run({ code, language: 'bash' })

    test('a watch of a directory reports changes in it, and none below', async () => {
      await bash('mkdir -p /tmp/w1/sub')
      await using watch = await begin(shared.guest, '/tmp/w1')
      await bash('echo a > /tmp/w1/f')
      await watch.sees('created /tmp/w1/f')
      await bash('echo b >> /tmp/w1/f')
      await watch.sees('modified /tmp/w1/f')
      await bash('echo x > /tmp/w1/sub/unseen; mv /tmp/w1/f /tmp/w1/g')
      await watch.sees('moved /tmp/w1/g from /tmp/w1/f')
      await bash('rm /tmp/w1/g')
      await watch.sees('deleted /tmp/w1/g')
      expect(watch.seen.join()).not.toContain('unseen')
    })

    test('a recursive watch follows directories that appear, move and disappear', async () => {
      await bash('mkdir -p /tmp/w2/old/deep')
      await using watch = await begin(shared.guest, '/tmp/w2', { recursive: true })
      await bash('echo 1 > /tmp/w2/old/deep/f')
      await watch.sees('created /tmp/w2/old/deep/f')
      await bash('mkdir -p /tmp/w2/new/a/b; echo 2 > /tmp/w2/new/a/b/f')
      await watch.sees('created /tmp/w2/new/a/b/f')
      await bash('mv /tmp/w2/new/a /tmp/w2/old/moved; sleep 0.1; echo 3 >> /tmp/w2/old/moved/b/f')
      await watch.sees('moved /tmp/w2/old/moved from /tmp/w2/new/a')
      await watch.sees('modified /tmp/w2/old/moved/b/f')
      await bash('mv /tmp/w2/old/moved /tmp/w2-outside; sleep 0.1; echo 4 > /tmp/w2-outside/b/unseen')
      await watch.sees('deleted /tmp/w2/old/moved')
      await bash('touch /tmp/w2/last')
      await watch.sees('created /tmp/w2/last')
      expect(watch.seen.join()).not.toContain('unseen')
      // Found by listing and reported by the kernel, but reported once.
      expect(watch.seen.filter((line) => line === 'created /tmp/w2/new/a/b/f')).toHaveLength(1)
    })

    test('a watch of a file survives its replacement, deletion and re-creation', async () => {
      await bash('echo a > /tmp/w3; ln -s w3 /tmp/w3-link; echo other > /tmp/w3-other')
      await using watch = await begin(shared.guest, '/tmp/w3-link')
      await shared.guest.files.write('/tmp/w3', 'b')
      await watch.sees('modified /tmp/w3')
      await bash('echo x > /tmp/w3-other; rm /tmp/w3')
      await watch.sees('deleted /tmp/w3')
      await shared.guest.files.write('/tmp/w3', 'c')
      await watch.sees('created /tmp/w3')
      await bash('mv /tmp/w3-other /tmp/w3')
      await watch.sees('moved /tmp/w3 from /tmp/w3-other')
      expect(watch.seen.filter((line) => line.includes('.tmp'))).toEqual([])
    })

    test('a watch ends when its directory is deleted', async () => {
      await bash('mkdir /tmp/w4')
      await using watch = await begin(shared.guest, '/tmp/w4', { recursive: true })
      await bash('rmdir /tmp/w4')
      await watch.ended
      expect(watch.seen).toEqual(['deleted /tmp/w4'])
    })

    test('a user may watch only readable files', async () => {
      await bash('mkdir -p /tmp/w5/open /tmp/w5/secret; chmod 700 /tmp/w5/secret; chmod 777 /tmp/w5/open')
      const refused = begin(shared.guest, '/tmp/w5/secret', { user: 'user' })
      await expect(refused).rejects.toMatchObject({ code: 'permission_denied' })
      await using watch = await begin(shared.guest, '/tmp/w5', { user: 'user', recursive: true })
      await bash('touch /tmp/w5/secret/unseen /tmp/w5/open/seen')
      await watch.sees('created /tmp/w5/open/seen')
      expect(watch.seen.join()).not.toContain('unseen')
      await expect(begin(shared.guest, '/tmp/none')).rejects.toMatchObject({ code: 'not_found' })
    })

    test('a watch does not follow links out of the tree', async () => {
      await bash('mkdir /tmp/w6 /tmp/w6-elsewhere; ln -s /tmp/w6-elsewhere /tmp/w6/link')
      await using watch = await begin(shared.guest, '/tmp/w6', { recursive: true })
      await bash('touch /tmp/w6-elsewhere/unseen; ln -s /tmp/w6-elsewhere /tmp/w6/more; touch /tmp/w6/last')
      await watch.sees('created /tmp/w6/last')
      expect(watch.seen).toEqual(['created /tmp/w6/more', 'created /tmp/w6/last'])
    })

    test('a slow reader learns of the overflow, and new directories are found again', async () => {
      await bash('mkdir /tmp/w7')
      const changes = shared.guest.files.watch('/tmp/w7', { recursive: true })[Symbol.asyncIterator]()
      expect((await changes.next()).value).toMatchObject({ type: 'ready' })
      await shared.guest.runs.run({
        code: 'import os\nfor i in range(60000): open(f"/tmp/w7/{"n" * 60}{i}", "w").close()\nos.mkdir("/tmp/w7/behind")',
      })
      let count = 0
      for (;;) {
        const { value } = await changes.next()
        if ((value as FileChange).type === 'overflow') break
        count += 1
      }
      expect(count).toBeLessThan(60000)
      const touching = setInterval(() => bash('touch /tmp/w7/behind/$RANDOM$RANDOM').catch(() => {}), 200)
      for (;;) {
        const { value } = await changes.next()
        if ((value as FileChange).path.startsWith('/tmp/w7/behind/')) break
      }
      clearInterval(touching)
      await changes.return?.()
    })

    test('a thousand writes to one file are a few changes', async () => {
      await bash('mkdir /tmp/w8; touch /tmp/w8/f')
      await using watch = await begin(shared.guest, '/tmp/w8')
      await shared.guest.runs.run({
        code: 'f = open("/tmp/w8/f", "a")\nfor i in range(1000): f.write("x"); f.flush()\nf.close()',
      })
      await bash('touch /tmp/w8/last')
      await watch.sees('created /tmp/w8/last')
      expect(watch.seen.length).toBeLessThan(200)
    })

    test('an open watch does not prevent a snapshot, and can be restarted', async () => {
      const burrow = await shared.create()
      await burrow.guest.files.mkdir('/tmp/w9')
      await using watch = await begin(burrow.guest, '/tmp/w9', { recursive: true })
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      await expect(watch.ended).rejects.toMatchObject({ code: expect.stringMatching(/unreachable|ended/) })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      await using again = await begin(woken.guest, '/tmp/w9', { recursive: true })
      await woken.guest.files.write('/tmp/w9/f', '')
      await again.sees('created /tmp/w9/f')
    })

    test('a watch above the limit is refused, and ended watches make room', async () => {
      const open = await Promise.all(Array.from({ length: 64 }, () => begin(shared.guest, '/tmp')))
      await expect(begin(shared.guest, '/tmp')).rejects.toMatchObject({ code: 'limit_reached' })
      for (const watch of open) await watch[Symbol.asyncDispose]()
      const descriptors = 'ls -l /proc/2/fd | grep -c inotify || true'
      await eventually('no inotify in the agent', async () => (await bash(descriptors)).stdout === '0\n')
      await using _watch = await begin(shared.guest, '/tmp')
    })
  })
}

/** Waits until the watch is ready, then collects changes in the background. */
async function begin(guest: Guest, path: string, options: Options = {}) {
  const controller = new AbortController()
  const changes = guest.files.watch(path, { ...options, signal: controller.signal })[Symbol.asyncIterator]()
  expect((await changes.next()).value).toMatchObject({ type: 'ready' })
  const seen: string[] = []
  const ended = (async () => {
    for (let next = await changes.next(); next.done !== true; next = await changes.next()) {
      const { value } = next
      seen.push(`${value.type} ${value.path}${value.type === 'moved' ? ` from ${value.from}` : ''}`)
    }
  })()
  ended.catch(() => {})
  return {
    seen,
    ended,
    sees: (line: string) => eventually(`${line} in ${seen.join(', ')}`, async () => seen.includes(line)),
    async [Symbol.asyncDispose]() {
      controller.abort()
      await ended.catch(() => {})
    },
  }
}
